package faults_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// checked runs Check with a client and returns the error.
func checked(t *testing.T, client redis.UniversalClient, options holdfast.Options, kinds ...holdfast.Kind) *holdfast.CheckError {
	t.Helper()
	options.Logger = locktest.Quiet()
	err := locktest.NewRuntime(t, client, options).CheckFor(t.Context(), kinds...)
	var found *holdfast.CheckError
	require.ErrorAs(t, err, &found)
	t.Log(err)
	assert.LessOrEqual(t, strings.Count(err.Error(), "\n"), 24)
	for _, f := range found.Findings {
		assert.NotEmpty(t, f.What)
		assert.NotEmpty(t, f.Why, f.What)
		assert.NotEmpty(t, f.Remedy, f.What)
	}
	return found
}

// Check's error tells a reader who knows nothing of this library how to repair the setup.
func TestFault_CheckTellsAStrangerWhatToDo(t *testing.T) {
	t.Parallel()
	t.Run("one command denied", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		require.NoError(t, server.Client(t).ACLSetUser(t.Context(), "app", "reset", "on", ">right", "~*", "&*", "+@all", "-hset").Err())
		client := locktest.ClientWith(t, &redis.Options{Addr: server.Addr(), Username: "app", Password: "right"})
		found := checked(t, client, holdfast.Options{})
		require.Len(t, found.Findings, 1)
		assert.Equal(t, `user "app" may not call HSET`, found.Findings[0].What)
		assert.Contains(t, found.Findings[0].Why, "needed for lock, fair lock, fenced lock, spin lock, read lock, write lock (")
		assert.Equal(t, "ACL SETUSER app +hset", found.Findings[0].Remedy)
		var reply redis.Error
		assert.ErrorAs(t, found, &reply)
	})
	t.Run("wrong password", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "--requirepass", "right")
		client := locktest.ClientWith(t, &redis.Options{Addr: server.Addr(), Password: "wrong-password-7"})
		found := checked(t, client, holdfast.Options{})
		require.Len(t, found.Findings, 1)
		assert.Contains(t, found.Findings[0].What, "refuses the login")
		assert.Contains(t, found.Findings[0].Why, "WRONGPASS")
		assert.NotContains(t, found.Error(), "wrong-password-7")
	})
	t.Run("down", func(t *testing.T) {
		t.Parallel()
		client := locktest.ClientWith(t, &redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		found := checked(t, client, holdfast.Options{})
		require.Len(t, found.Findings, 1)
		assert.Equal(t, "Redis at 127.0.0.1:1 cannot be reached", found.Findings[0].What)
		var network *net.OpError
		assert.ErrorAs(t, found, &network)
	})
	t.Run("client closed", func(t *testing.T) {
		t.Parallel()
		client := locktest.Unasking(&redis.Options{Addr: "127.0.0.1:1"})
		require.NoError(t, client.Close())
		found := checked(t, client, holdfast.Options{})
		require.Len(t, found.Findings, 1)
		assert.Equal(t, "close the client after the runtime", found.Findings[0].Remedy)
		assert.ErrorIs(t, found, redis.ErrClosed)
	})
	t.Run("evicts", func(t *testing.T) {
		t.Parallel()
		found := checked(t, redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Client(t), holdfast.Options{})
		require.Len(t, found.Findings, 1)
		assert.Equal(t, "maxmemory-policy is allkeys-lru", found.Findings[0].What)
		assert.Contains(t, found.Findings[0].Remedy, "noeviction")
	})
	t.Run("replica", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		admin := server.Client(t)
		require.NoError(t, admin.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
		found := checked(t, admin, holdfast.Options{})
		require.Len(t, found.Findings, 1)
		assert.Contains(t, found.Findings[0].What, "is a replica")
		assert.Contains(t, found.Findings[0].Remedy, "connect to the master")
		require.NoError(t, admin.ACLSetUser(t.Context(), "app", "reset", "on", ">right", "~*", "&*", "+@all", "-info").Err())
		few := locktest.ClientWith(t, &redis.Options{Addr: server.Addr(), Username: "app", Password: "right"})
		assert.Contains(t, checked(t, few, holdfast.Options{}).Findings[0].What, "is a replica", "even if INFO is denied")
	})
	t.Run("a tag in every name of a cluster", func(t *testing.T) {
		t.Parallel()
		client := locktest.ClusterClient(t, redistest.SharedCluster(t))
		var names atomic.Int64
		tagged := holdfast.Options{NameMapper: func(name string) string { names.Add(1); return "{app}:" + name }}
		found := checked(t, client, tagged)
		assert.Less(t, names.Load(), int64(1000), "no long search for names that lead to the other masters: no name does")
		require.Len(t, found.Findings, 1)
		assert.Contains(t, found.Findings[0].What, "script latch_count_down")
		assert.Contains(t, found.Findings[0].Remedy, "no latch works whose name, after Options.NameMapper, has a {tag}")
		assert.NoError(t, locktest.NewRuntime(t, client, tagged).CheckFor(t.Context(),
			holdfast.KindLock, holdfast.KindFair, holdfast.KindFenced, holdfast.KindSpin, holdfast.KindRead, holdfast.KindWrite,
			holdfast.KindPermitSemaphore, holdfast.KindSemaphore))
	})
	t.Run("nothing allowed", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		require.NoError(t, server.Client(t).ACLSetUser(t.Context(), "app", "reset", "on", ">right", "+ping", "+time", "+evalsha", "+script|load").Err())
		client := locktest.ClientWith(t, &redis.Options{Addr: server.Addr(), Username: "app", Password: "right"})
		found := checked(t, client, holdfast.Options{NameMapper: appKey})
		assert.Greater(t, len(found.Findings), 25)
		said := map[string]bool{}
		for _, f := range found.Findings {
			assert.False(t, said[f.What], "twice: %s", f.What)
			said[f.What] = true
		}
		lines := strings.Split(found.Error(), "\n")
		rule, isRule := strings.CutPrefix(lines[len(lines)-1], "all missing rights at once: ACL SETUSER app ")
		require.True(t, isRule, lines[len(lines)-1])
		require.NoError(t, server.Client(t).ACLSetUser(t.Context(), "app", strings.Fields(rule)...).Err())
		assert.NoError(t, locktest.NewRuntime(t, client, holdfast.Options{NameMapper: appKey}).Check(t.Context()), "the rule of the first check has all missing rights")
	})
}

// pretender answers INFO and refuses scripts, as a server of another version would.
type pretender struct{ info string }

func (p pretender) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p pretender) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p pretender) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		for _, command := range commands {
			switch answered, _ := command.(interface{ SetVal(any) }); strings.ToLower(command.Name()) {
			case "info":
				answered.SetVal(p.info)
			case "evalsha":
				err = errors.New("ERR Error running script: @user_script: 3: Unknown Redis command called from Lua script")
				command.SetErr(err)
			}
		}
		return err
	}
}

// If the server is too old, Check reports the server's version. It does not report that scripts fail, because the old version is the reason.
func TestFault_CheckOfAnOldServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for version, old := range map[string]bool{"5.0.6": true, "6.0.16": true, "6.2.0": false, "10.0.1": false} {
		client := server.Client(t)
		client.AddHook(pretender{info: "# Server\r\nredis_version:" + version + "\r\nrole:master\r\nmaxmemory_policy:allkeys-lru\r\n"})
		found := checked(t, client, holdfast.Options{})
		if !old {
			assert.NotContains(t, found.Findings[0].What, version)
			assert.Less(t, len(found.Findings[0].What), 200, "the error does not name every script")
			continue
		}
		assert.Equal(t, "the server's version is "+version+", 6.2 or later is needed", found.Findings[0].What)
		require.Len(t, found.Findings, 2, "and the eviction policy")
		assert.Contains(t, found.Findings[1].What, "allkeys-lru")
		assert.NotContains(t, found.Error(), "user_script")
	}
}

func TestFault_CheckForUnknownKinds(t *testing.T) {
	t.Parallel()
	rt := locktest.NewRuntime(t, redistest.Shared(t).Client(t), holdfast.Options{})
	for _, kind := range []holdfast.Kind{"", "permit", "mutex"} {
		err := rt.CheckFor(t.Context(), holdfast.KindLock, kind)
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.ErrorContains(t, err, `"`+string(kind)+`"`)
	}
	assert.NoError(t, rt.CheckFor(t.Context()))
	assert.NoError(t, rt.CheckFor(t.Context(), holdfast.KindLatch, holdfast.KindLatch))
}

// exchanges counts how often a client sends something and waits for the answer.
type exchanges struct{ n atomic.Int64 }

func (e *exchanges) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &exchanging{Conn: conn, n: &e.n}, err
}

type exchanging struct {
	net.Conn
	n    *atomic.Int64
	sent atomic.Bool // something was sent after the last answer
}

func (e *exchanging) Write(p []byte) (int, error) {
	if !e.sent.Swap(true) {
		e.n.Add(1)
	}
	return e.Conn.Write(p)
}

func (e *exchanging) Read(p []byte) (int, error) {
	defer e.sent.Store(false)
	return e.Conn.Read(p)
}

// A check asks each question about all kinds at once, so one more kind costs less than one more exchange with the server. If each kind cost an
// exchange, a check might exceed its time limit on a busy machine or with a distant server. It would then report that the server does not answer.
func TestFault_CheckExchangesLittle(t *testing.T) {
	t.Parallel()
	var count exchanges
	client := locktest.ClientWith(t, &redis.Options{Addr: redistest.Shared(t).Addr(), Dialer: count.dial})
	rt := locktest.NewRuntime(t, client, holdfast.Options{})
	of := func(kinds ...holdfast.Kind) int64 {
		before := count.n.Load()
		require.NoError(t, rt.CheckFor(t.Context(), kinds...))
		return count.n.Load() - before
	}
	of() // makes the connections
	one, all := of(holdfast.KindLock), of()
	t.Logf("one kind: %d, all kinds: %d", one, all)
	assert.Less(t, all-one, int64(len(scripts.Everything())-1))
}
