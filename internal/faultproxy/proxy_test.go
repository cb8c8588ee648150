package faultproxy_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const (
	patience   = 10 * time.Second
	impatience = 300 * time.Millisecond
)

// rig has a server with a proxy in front of it, and two clients. One uses the proxy and never repeats a
// command, the other connects directly.
type rig struct {
	proxy   *faultproxy.Proxy
	through *redis.Client
	direct  *redis.Client
	key     string
}

func setup(t *testing.T) rig { return setupWaiting(t, patience) }

// setupWaiting is setup with another read timeout for the client that uses the proxy.
func setupWaiting(t *testing.T, timeout time.Duration) rig {
	server := redistest.Shared(t)
	proxy := faultproxy.New(t, server.Addr())
	return rig{proxy, through(t, server, proxy, 3, timeout), server.Client(t), redistest.Name(t)}
}

func through(
	t *testing.T, s *redistest.Server, p *faultproxy.Proxy, protocol int, timeout time.Duration,
) *redis.Client {
	options := s.Options()
	options.Addr = p.Addr()
	options.Protocol = protocol
	options.MaxRetries = -1
	options.DialerRetries = 1
	options.ReadTimeout = timeout
	options.PipelinePoolSize = -1
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// connect opens one pooled connection, so that a fault does not hit its setup.
func (r rig) connect(t *testing.T) {
	require.NoError(t, r.through.Ping(t.Context()).Err())
}

func (r rig) value(t *testing.T) string { return r.direct.Get(t.Context(), r.key).Val() }

func requireTimeout(t *testing.T, err error) {
	t.Helper()
	var timeout net.Error
	require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
}

func TestProxy_WithoutFaultsIsTransparent(t *testing.T) {
	r := setup(t)
	large := string(make([]byte, 1<<20))
	require.NoError(t, r.through.Set(t.Context(), r.key, large, time.Minute).Err())
	assert.Equal(t, large, r.through.Get(t.Context(), r.key).Val())

	pipe := r.through.Pipeline()
	for range 1000 {
		pipe.Incr(t.Context(), r.key+"n")
	}
	cmds, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(1000), cmds[999].(*redis.IntCmd).Val())
	assert.Zero(t, r.proxy.Dropped())
}

func TestProxy_ForwardsMessages(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		r := setup(t)
		subscription := through(t, redistest.Shared(t), r.proxy, protocol, patience).Subscribe(t.Context(), r.key)
		defer subscription.Close()
		_, err := subscription.Receive(t.Context())
		require.NoError(t, err)

		require.NoError(t, r.direct.Publish(t.Context(), r.key, "0").Err())
		message, err := subscription.ReceiveMessage(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "0", message.Payload)
	}
}

func TestProxy_UnreachableServerClosesTheConnection(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	proxy := faultproxy.New(t, server.Addr())
	conn, err := net.Dial("tcp", proxy.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	assert.Error(t, err)
}

func TestProxy_EndOfTheServerEndsTheConnection(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.New(t, server.Addr())
	client := through(t, server, proxy, 3, patience)
	require.NoError(t, client.Ping(t.Context()).Err())
	server.Kill()
	require.Eventually(t, func() bool { return proxy.Open() == 0 }, patience, time.Millisecond)
	server.Restart()
	require.Eventually(t, func() bool { return client.Ping(t.Context()).Err() == nil },
		patience, time.Millisecond)
}

func TestDelay_HoldsBackOneDirection(t *testing.T) {
	for _, d := range []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient} {
		r := setupWaiting(t, impatience)
		r.connect(t)
		r.proxy.Delay(d, 50*time.Millisecond)
		start := time.Now()
		r.connect(t)
		assert.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)

		r.proxy.Delay(d, time.Hour)
		err := r.through.Set(t.Context(), r.key, "v", time.Minute).Err()
		requireTimeout(t, err)
		if d == faultproxy.ToServer {
			assert.Empty(t, r.value(t), "the request has not arrived")
		} else {
			assert.Equal(t, "v", r.value(t), "only the reply is late")
		}
	}
}

func TestDelay_IsThatOfAPipelineNotOfEachCommand(t *testing.T) {
	r := setup(t)
	r.connect(t)
	r.proxy.Delay(faultproxy.ToServer, 20*time.Millisecond)
	start := time.Now()
	_, err := r.through.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for range 100 {
			pipe.Ping(t.Context())
		}
		return nil
	})
	require.NoError(t, err)
	assert.Less(t, time.Since(start), time.Second)
}

func TestDropReplies_ExecutesTheRequestAndCutsTheConnection(t *testing.T) {
	r := setup(t)
	r.connect(t)
	r.proxy.DropReplies(1)
	assert.ErrorIs(t, r.through.Incr(t.Context(), r.key).Err(), io.EOF)
	assert.Equal(t, "1", r.value(t))
	assert.Equal(t, 1, r.proxy.Dropped())

	assert.Equal(t, int64(2), r.through.Incr(t.Context(), r.key).Val(), "the next one passes")
	assert.Equal(t, 1, r.proxy.Dropped())
}

func TestDropReplies_HitsOnlyMatchingRequests(t *testing.T) {
	r, other := setup(t), redistest.Name(t)
	r.proxy.DropReplies(2, faultproxy.Containing("incr", r.key))
	for range 2 {
		require.NoError(t, r.through.Ping(t.Context()).Err())
		require.NoError(t, r.through.Incr(t.Context(), other).Err())
		require.ErrorIs(t, r.through.Incr(t.Context(), r.key).Err(), io.EOF)
	}
	require.NoError(t, r.through.Incr(t.Context(), r.key).Err())
	assert.Equal(t, "3", r.value(t))
	assert.Equal(t, 2, r.proxy.Dropped())
}

func TestDropReplies_InAPipelineLosesFromThereOnAndExecutesAll(t *testing.T) {
	r := setup(t)
	r.proxy.DropReplies(1, faultproxy.Containing("second"))
	pipe := r.through.Pipeline()
	first := pipe.Append(t.Context(), r.key, "first ")
	second := pipe.Append(t.Context(), r.key, "second ")
	third := pipe.Append(t.Context(), r.key, "third")
	_, err := pipe.Exec(t.Context())
	require.ErrorIs(t, err, io.EOF)

	assert.Equal(t, int64(6), first.Val())
	assert.ErrorIs(t, second.Err(), io.EOF)
	assert.ErrorIs(t, third.Err(), io.EOF)
	assert.Equal(t, "first second third", r.value(t))
}

func TestDropReplies_LeavesOtherConnectionsAlone(t *testing.T) {
	r := setup(t)
	other := through(t, redistest.Shared(t), r.proxy, 3, patience)
	conn := other.Conn()
	defer conn.Close()
	require.NoError(t, conn.Ping(t.Context()).Err())

	r.proxy.DropReplies(1, faultproxy.Containing("incr"))
	require.Error(t, r.through.Incr(t.Context(), r.key).Err())
	assert.NoError(t, conn.Ping(t.Context()).Err())
}

func TestSwallowReplies_ExecutesAndStaysSilent(t *testing.T) {
	r := setupWaiting(t, impatience)
	r.connect(t)
	r.proxy.SwallowReplies(true)
	requireTimeout(t, r.through.Incr(t.Context(), r.key).Err())
	assert.Equal(t, "1", r.value(t))
	assert.Equal(t, 1, r.proxy.Dropped())

	r.proxy.SwallowReplies(false)
	assert.Equal(t, int64(2), r.through.Incr(t.Context(), r.key).Val())
}

func TestSwallowReplies_OffNeverGivesAReplyToTheWrongRequest(t *testing.T) {
	r := setup(t)
	conn, err := net.Dial("tcp", r.proxy.Addr())
	require.NoError(t, err)
	defer conn.Close()
	r.proxy.SwallowReplies(true)
	_, err = io.WriteString(conn, "INCR "+r.key+"\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.proxy.Dropped() == 1 }, patience, time.Millisecond)

	r.proxy.SwallowReplies(false)
	_, err = conn.Read(make([]byte, 1))
	assert.Error(t, err, "the connection cannot be used any more")
}

func TestSwallowReplies_LosesMessagesAndKeepsTheSubscription(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		r := setup(t)
		subscription := through(t, redistest.Shared(t), r.proxy, protocol, patience).Subscribe(t.Context(), r.key)
		defer subscription.Close()
		_, err := subscription.Receive(t.Context())
		require.NoError(t, err)

		r.proxy.SwallowReplies(true)
		require.NoError(t, r.direct.Publish(t.Context(), r.key, "lost").Err())
		require.Eventually(t, func() bool { return r.proxy.Dropped() == 1 }, patience, time.Millisecond)
		r.proxy.SwallowReplies(false)
		require.NoError(t, r.direct.Publish(t.Context(), r.key, "seen").Err())

		message, err := subscription.ReceiveMessage(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "seen", message.Payload)
		assert.Equal(t, 1, r.proxy.Accepted(), "on the same connection")
	}
}

func TestBreakReplies_PassesTheBeginningOnly(t *testing.T) {
	r := setup(t)
	require.NoError(t, r.direct.Set(t.Context(), r.key, "value", time.Minute).Err())
	whole := "$5\r\nvalue\r\n"
	r.proxy.BreakReplies(20, faultproxy.Containing(r.key))
	for i := range 20 {
		conn, err := net.Dial("tcp", r.proxy.Addr())
		require.NoError(t, err)
		_, err = conn.Write([]byte("GET " + r.key + "\r\n"))
		require.NoError(t, err)
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.NotEmpty(t, got)
		assert.NotEqual(t, whole, string(got))
		assert.True(t, strings.HasPrefix(whole, string(got)), "%q", got)
		assert.Equal(t, i+1, r.proxy.Dropped())
		_ = conn.Close()
	}
	assert.Equal(t, "value", r.through.Get(t.Context(), r.key).Val(), "the next one passes")
}

func TestRepeatReplies_PutsTheConnectionOutOfStep(t *testing.T) {
	r := setup(t)
	r.proxy.RepeatReplies(1, faultproxy.Containing("first"))
	assert.Equal(t, []string{"first", "first", "second"}, r.echo(t, "first", "second", "third"), "within a pipeline")
	assert.Equal(t, 1, r.proxy.Repeated())

	one := r.through.Conn()
	defer one.Close()
	r.proxy.RepeatReplies(1, faultproxy.Containing("first"))
	assert.Equal(t, "first", one.Echo(t.Context(), "first").Val())
	assert.Equal(t, "first", one.Echo(t.Context(), "second").Val(), "and from one pipeline to the next")
	assert.Zero(t, r.proxy.Dropped())

	r.proxy.Heal()
	require.Eventually(t, func() bool { return r.proxy.Open() == 0 }, patience, time.Millisecond, "a connection out of step is cut")
	assert.Equal(t, []string{"first"}, r.echo(t, "first"))
}

func TestSkipReplies_PutsTheConnectionOutOfStep(t *testing.T) {
	r := setupWaiting(t, impatience)
	r.proxy.SkipReplies(1, faultproxy.Containing("first"))
	assert.Equal(t, []string{"second", "third", ""}, r.echo(t, "first", "second", "third"), "the last one gets nothing")
	assert.Equal(t, 1, r.proxy.Dropped())
	assert.Equal(t, []string{"first"}, r.echo(t, "first"))
}

// echo sends texts in one pipeline and returns the replies.
func (r rig) echo(t *testing.T, texts ...string) (replies []string) {
	pipe := r.through.Pipeline()
	for _, text := range texts {
		pipe.Echo(t.Context(), text)
	}
	commands, _ := pipe.Exec(t.Context())
	for _, command := range commands {
		replies = append(replies, command.(*redis.StringCmd).Val())
	}
	return replies
}

func TestBlackhole_AcceptsAndForwardsNothing(t *testing.T) {
	r := setupWaiting(t, impatience)
	r.connect(t)
	r.proxy.Blackhole(true)
	r.proxy.Blackhole(true) // a second call changes nothing
	requireTimeout(t, r.through.Incr(t.Context(), r.key).Err())
	assert.Empty(t, r.value(t))

	conn, err := net.DialTimeout("tcp", r.proxy.Addr(), time.Second)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func TestBlackhole_DeliversLateEvenFromAClientThatHasGone(t *testing.T) {
	r := setupWaiting(t, impatience)
	r.connect(t)
	r.proxy.Blackhole(true)
	requireTimeout(t, r.through.Incr(t.Context(), r.key).Err()) // go-redis closes the connection
	r.proxy.Blackhole(false)
	assert.Eventually(t, func() bool { return r.value(t) == "1" }, patience, time.Millisecond)
}

func TestBlackhole_CutLosesWhatWasHeld(t *testing.T) {
	r := setupWaiting(t, impatience)
	r.connect(t)
	r.proxy.Blackhole(true)
	requireTimeout(t, r.through.Incr(t.Context(), r.key).Err())
	r.proxy.Cut()
	r.proxy.Blackhole(false)
	require.Eventually(t, func() bool { return r.proxy.Open() == 0 }, patience, time.Millisecond)
	r.connect(t)
	assert.Empty(t, r.value(t))
}

func TestCut_ClosesWhatIsOpenAndWelcomesNewConnections(t *testing.T) {
	r := setup(t)
	conn, err := net.Dial("tcp", r.proxy.Addr())
	require.NoError(t, err)
	defer conn.Close()
	require.Eventually(t, func() bool { return r.proxy.Open() == 1 }, patience, time.Millisecond)

	r.proxy.Cut()
	_, err = conn.Read(make([]byte, 1))
	assert.Error(t, err)
	require.Eventually(t, func() bool { return r.proxy.Open() == 0 }, patience, time.Millisecond)
	r.connect(t)
}

func TestRefuse_ClosesNewConnectionsAndKeepsOldOnes(t *testing.T) {
	r := setup(t)
	old := r.through.Conn()
	defer old.Close()
	require.NoError(t, old.Ping(t.Context()).Err())

	r.proxy.Refuse(true)
	assert.Error(t, r.through.Ping(t.Context()).Err())
	assert.NoError(t, old.Ping(t.Context()).Err())
	assert.Equal(t, 2, r.proxy.Accepted())

	r.proxy.Refuse(false)
	assert.NoError(t, r.through.Ping(t.Context()).Err())
}

func TestForget_TakesBackOrders(t *testing.T) {
	r := setup(t)
	r.connect(t)
	r.proxy.DropReplies(1)
	r.proxy.RepeatReplies(1)
	r.proxy.Forget()
	r.connect(t)
	assert.Equal(t, 1, r.proxy.Accepted(), "nothing was lost")
	assert.Zero(t, r.proxy.Dropped())
	assert.Zero(t, r.proxy.Repeated())
}

func TestHeal_EndsEveryFault(t *testing.T) {
	r := setup(t)
	r.connect(t)
	r.proxy.Delay(faultproxy.ToServer, time.Hour)
	r.proxy.Delay(faultproxy.ToClient, time.Hour)
	r.proxy.DropReplies(5)
	r.proxy.BreakReplies(5)
	r.proxy.SkipReplies(5)
	r.proxy.RepeatReplies(5)
	r.proxy.SwallowReplies(true)
	r.proxy.Blackhole(true)
	r.proxy.Refuse(true)
	r.proxy.Heal()
	for range 10 {
		require.NoError(t, r.through.Incr(t.Context(), r.key).Err())
	}
	assert.Equal(t, 1, r.proxy.Accepted(), "a connection that lost nothing stays open")
}
