package inspect_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// processOf waits until a runtime has announced itself, and returns its announcement.
func processOf(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) (found inspect.Process) {
	t.Helper()
	locktest.Await(t, "the announcement", func() bool {
		processes, err := inspect.Processes(t.Context(), p.Redis)
		assert.NoError(t, err)
		for _, process := range processes {
			if process.Runtime == rt.ID() {
				found = process
				return true
			}
		}
		return false
	})
	return found
}

func TestProcesses_AnnounceThemselves(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		client := p.Client(t)
		rt, err := holdfast.New(client, holdfast.Options{Process: "orders@web-1:4711 \"x\" <y>", Logger: locktest.Quiet()})
		require.NoError(t, err)
		silent := p.Runtime(t, holdfast.Options{})
		process := processOf(t, p, rt)
		assert.Equal(t, "orders@web-1:4711 \"x\" <y>", process.Name)
		assert.NotEmpty(t, process.Version)
		assert.InDelta(t, 0, time.Since(process.Since), float64(locktest.Patience))

		locktest.Acquire(t, rt.RWLock(p.Name).Read())
		locktest.Acquire(t, silent.RWLock(p.Name).Read())
		for _, h := range look(t, p.Redis, p.Name).Holders {
			if strings.HasPrefix(h.ID, rt.ID()) {
				assert.Equal(t, process, h.Process)
			} else {
				assert.Zero(t, h.Process)
			}
		}
		for _, name := range names(list(t, p.Redis, inspect.ListOptions{})) {
			assert.NotContains(t, name, "holdfast_process")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, rt.Close(ended))
		assert.Zero(t, p.Redis.Exists(t.Context(), "holdfast_process:{all}:"+rt.ID()).Val())
		assert.Zero(t, p.Redis.Exists(t.Context(), "holdfast_process:{all}:"+silent.ID()).Val())
		assert.NotContains(t, p.Redis.ZRange(t.Context(), "holdfast_process:{all}", 0, -1).Val(), rt.ID())
	})
}

func TestProcesses_AreRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := locktest.NewBubble(t)
		var link locktest.Pipes
		rt := server.Runtime(t, &link, holdfast.Options{Process: "orders"})
		key := "holdfast_process:{all}:" + rt.ID()
		synctest.Wait()
		announced, err := server.Get(key)
		require.NoError(t, err)
		for range 20 {
			<-time.After(7 * time.Second)
			require.GreaterOrEqual(t, server.TTL(key), 19*time.Second)
		}
		server.FlushAll()
		<-time.After(11 * time.Second)
		again, err := server.Get(key)
		require.NoError(t, err)
		assert.Equal(t, announced, again, "the time of the start stays the same")

		link.Cut()
		<-time.After(31 * time.Second)
		assert.False(t, server.Exists(key))
		link.Heal()
		<-time.After(8 * time.Second)
		assert.True(t, server.Exists(key), "the announcement is written again, sooner than it would be renewed")
	})
}

// If Redis refuses the announcement, the log says so, once. The process works without it.
func TestProcesses_RefusalIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := locktest.NewBubble(t)
		require.NoError(t, server.Set("holdfast_process:{all}", "of another program"))
		var link locktest.Pipes
		var log strings.Builder
		rt := server.Runtime(t, &link, holdfast.Options{Process: "orders", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		<-time.After(time.Minute)
		require.NoError(t, rt.Lock("orders").Do(t.Context(), func(context.Context) error { return nil }))
		require.NoError(t, rt.Close(t.Context()))
		assert.Equal(t, 1, strings.Count(log.String(), "Options.Process"), log.String())
		assert.Contains(t, log.String(), "WRONGTYPE")
	})
}

// The list of processes forgets those that have died, and its key disappears with the last one.
func TestProcesses_DeadOnesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all = "holdfast_process:{all}"
		server := locktest.NewBubble(t)
		var dies, lives locktest.Pipes
		dead := server.Runtime(t, &dies, holdfast.Options{Process: "dies", Lease: time.Hour})
		alive := server.Runtime(t, &lives, holdfast.Options{Process: "lives"})
		synctest.Wait()
		members, err := server.ZMembers(all)
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{dead.ID(), alive.ID()}, members)
		assert.Equal(t, time.Hour, server.TTL(all))
		dies.Cut()
		<-time.After(time.Hour + 20*time.Second)
		members, err = server.ZMembers(all)
		require.NoError(t, err)
		assert.Equal(t, []string{alive.ID()}, members)
		lives.Cut()
		<-time.After(time.Minute)
		assert.False(t, server.Exists(all))
		dies.Heal()
		lives.Heal()
	})
}

func TestProcesses_LiveAsLongAsTheirLocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := locktest.NewBubble(t)
		rt := server.Runtime(t, &locktest.Pipes{}, holdfast.Options{Process: "orders", Lease: time.Hour})
		synctest.Wait()
		assert.Equal(t, time.Hour, server.TTL("holdfast_process:{all}:"+rt.ID()))
	})
}

// Other programs may write anything under the key of a process.
func TestProcesses_HostileValues(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	runtime := strings.TrimSuffix(locktest.Stranger(1), ":1")
	key := "holdfast_process:{all}:" + runtime
	require.NoError(t, p.Redis.HSet(t.Context(), p.Name, locktest.Stranger(1), 1).Err())
	all := []redis.Z{{Score: 9e15, Member: runtime}, {Member: ""}, {Member: "no runtime"}, {Member: runtime + "}"}, {Member: strings.Repeat("x", 1<<20)}}
	require.NoError(t, p.Redis.ZAdd(t.Context(), "holdfast_process:{all}", all...).Err())
	for value, ok := range map[string]bool{
		"1700000000000 v1.2.3 <script>alert(1)</script>":     true,
		"1700000000000 v1.2.3 " + strings.Repeat("n", 512):   true,
		"1700000000000 v1.2.3 " + strings.Repeat("n", 513):   false,
		"1700000000000 v1.2.3 " + strings.Repeat("n", 1<<20): false,
		"1700000000000 v1.2.3 a\x1b[2Jb":                     false,
		"1700000000000 v1.2.3 \xff":                          false,
		"1700000000000 v1.2.3 ":                              false,
		"1700000000000 " + strings.Repeat("v", 129) + " x":   false,
		"99999999999999999999 v1 x":                          false,
		"-1 v1 x":                                            false,
		"":                                                   false,
		"{}":                                                 false,
	} {
		require.NoError(t, p.Redis.Set(t.Context(), key, value, 0).Err())
		found, err := inspect.Processes(t.Context(), p.Redis)
		require.NoError(t, err)
		holder := look(t, p.Redis, p.Name).Holders[0]
		if !ok {
			assert.Empty(t, found, "%.80q", value)
			assert.Zero(t, holder.Process)
			continue
		}
		require.Len(t, found, 1, "%.80q", value)
		assert.Equal(t, holder.Process, found[0])
		assert.Equal(t, runtime, found[0].Runtime)
		assert.Equal(t, "v1.2.3", found[0].Version)
		assert.Equal(t, int64(1700000000000), found[0].Since.UnixMilli())
		assert.True(t, strings.HasSuffix(value, " "+found[0].Name))
	}
	require.NoError(t, p.Redis.Del(t.Context(), key).Err())
	require.NoError(t, p.Redis.HSet(t.Context(), key, "a", "b").Err())
	for _, other := range []string{"", "no runtime", runtime + "}"} {
		require.NoError(t, p.Redis.Set(t.Context(), "holdfast_process:{all}:"+other, "1700000000000 v1.2.3 x", 0).Err())
	}
	found, err := inspect.Processes(t.Context(), p.Redis)
	require.NoError(t, err)
	assert.Empty(t, found)
	require.NoError(t, p.Redis.Set(t.Context(), "holdfast_process:{all}", "no set", 0).Err())
	found, err = inspect.Processes(t.Context(), p.Redis)
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestProcesses_CheckTheirRights(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	rules := []any{"acl", "setuser", "app", "reset", "on", ">secret", "resetkeys", "~holdfast-check-*", "~redisson_lock__channel:*"}
	rules = append(rules, "allchannels", "allcommands")
	require.NoError(t, p.Redis.Do(t.Context(), rules...).Err())
	options := *p.Server.Options()
	options.Username, options.Password = "app", "secret"
	silent := locktest.NewRuntime(t, locktest.ClientWith(t, &options), holdfast.Options{})
	require.NoError(t, silent.CheckFor(t.Context(), holdfast.KindLock))
	announced := locktest.NewRuntime(t, locktest.ClientWith(t, &options), holdfast.Options{Process: "orders"})
	err := announced.CheckFor(t.Context(), holdfast.KindLock)
	require.ErrorContains(t, err, "holdfast_process:{")
	assert.ErrorContains(t, err, "announcement of the process")
	t.Log(err)
}

func TestProcess_IsBounded(t *testing.T) {
	t.Parallel()
	client := locktest.NewClient(t, "127.0.0.1:1")
	for _, bad := range []string{strings.Repeat("n", 513), "a\nb", "\xff"} {
		_, err := holdfast.New(client, holdfast.Options{Process: bad})
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.ErrorContains(t, err, "Process: ")
	}
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Regexp(t, `^orders@.*:[0-9]+$`, holdfast.HostProcess("orders"))
	assert.Contains(t, holdfast.HostProcess("orders"), host)
}

// If the Sentinels do not know the master, Processes returns an error, and not an empty list.
func TestProcesses_SentinelsDoNotKnowTheMaster(t *testing.T) {
	t.Parallel()
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "misspelt", SentinelAddrs: []string{redistest.Start(t, "--sentinel").Addr()}, MaxRetries: -1})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	_, err := inspect.Processes(t.Context(), client)
	assert.ErrorContains(t, err, "sentinels")
}
