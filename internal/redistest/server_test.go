package redistest_test

import (
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestStart_AnswersAtOnceAndKeepsNothing(t *testing.T) {
	s := redistest.Start(t)
	client := s.Client(t)
	require.NoError(t, client.Ping(t.Context()).Err())

	config := client.ConfigGet(t.Context(), "*").Val()
	assert.Equal(t, "", config["save"])
	assert.Equal(t, "no", config["appendonly"])
	assert.Equal(t, "127.0.0.1", config["bind"])
}

func TestStart_ExtraArgumentsWin(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "3mb", "--appendonly", "yes")
	config := s.Client(t).ConfigGet(t.Context(), "*").Val()
	assert.Equal(t, "3145728", config["maxmemory"])
	assert.Equal(t, "yes", config["appendonly"])
}

func TestStart_AcceptsAServerThatWantsAPassword(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	options := s.Options()
	options.Password = "secret"
	client := redis.NewClient(options)
	defer client.Close()
	assert.NoError(t, client.Ping(t.Context()).Err())
}

func TestStart_ManyAtOnceGetDifferentPorts(t *testing.T) {
	var wg sync.WaitGroup
	addrs := make([]string, 4)
	for i := range addrs {
		wg.Go(func() { addrs[i] = redistest.Start(t).Addr() })
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, addr := range addrs {
		assert.False(t, seen[addr], addr)
		seen[addr] = true
	}
}

func TestStart_ServerAndFilesGoWithTheTest(t *testing.T) {
	var addr, dir string
	t.Run("inner", func(t *testing.T) {
		s := redistest.Start(t)
		addr = s.Addr()
		dir = s.Client(t).ConfigGet(t.Context(), "dir").Val()["dir"]
	})
	_, err := net.DialTimeout("tcp", addr, time.Second)
	assert.Error(t, err)
	assert.NoDirExists(t, dir)
}

func TestStart_BadArgumentShowsTheServersWords(t *testing.T) {
	fatal := fatalOf(t, func(tb testing.TB) { redistest.Start(tb, "--no-such-option", "1") })
	assert.Contains(t, fatal, "ended before it was ready")
	assert.Contains(t, fatal, "no-such-option")
}

func TestStart_MissingBinaryFailsAndSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("HOLDFAST_REDIS_SERVER", "")
	fatal := fatalOf(t, func(tb testing.TB) { redistest.Start(tb) })
	assert.Equal(t, "redistest: redis-server is not on PATH: apt-get install redis-server, "+
		"brew install redis, or set HOLDFAST_REDIS_SERVER to the binary", fatal)
}

func TestStart_TakesTheBinaryFromTheEnvironment(t *testing.T) {
	t.Setenv("HOLDFAST_REDIS_SERVER", "/does/not/exist")
	fatal := fatalOf(t, func(tb testing.TB) { redistest.Start(tb) })
	assert.Contains(t, fatal, "HOLDFAST_REDIS_SERVER=/does/not/exist is no program")
}

func TestServer_URLNamesTheSameServer(t *testing.T) {
	s := redistest.Shared(t)
	options, err := redis.ParseURL(s.URL())
	require.NoError(t, err)
	assert.Equal(t, s.Addr(), options.Addr)
}

func TestServer_PIDIsThatOfTheServer(t *testing.T) {
	s := redistest.Shared(t)
	info := s.Client(t).InfoMap(t.Context(), "server").Item("Server", "process_id")
	assert.Equal(t, info, itoa(s.PID()))
	assert.NotEqual(t, os.Getpid(), s.PID())
}

func TestServer_ClientIsClosedWithItsTest(t *testing.T) {
	var client *redis.Client
	t.Run("inner", func(t *testing.T) { client = redistest.Shared(t).Client(t) })
	assert.ErrorIs(t, client.Ping(t.Context()).Err(), redis.ErrClosed)
}

func TestServer_LogTellsTheStart(t *testing.T) {
	assert.Contains(t, redistest.Shared(t).Log(), "Ready to accept connections")
}

func TestShared_IsOneServerForAll(t *testing.T) {
	one, other := redistest.Shared(t), redistest.Shared(t)
	assert.Equal(t, one.Addr(), other.Addr())
	assert.Equal(t, one.PID(), other.PID())
}

func TestShared_RefusesToDisturbOthers(t *testing.T) {
	for method, call := range map[string]func(*redistest.Server){
		"Pause":   (*redistest.Server).Pause,
		"Resume":  (*redistest.Server).Resume,
		"Kill":    (*redistest.Server).Kill,
		"Restart": (*redistest.Server).Restart,
	} {
		fatal := fatalOf(t, func(tb testing.TB) { call(redistest.Shared(tb)) })
		assert.Equal(t, "redistest: "+method+" on the shared server: use Start", fatal)
	}
}

func TestName_IsUniqueAndPlain(t *testing.T) {
	t.Run("with {braces} and: spaces", func(t *testing.T) {
		one, other := redistest.Name(t), redistest.Name(t)
		assert.NotEqual(t, one, other)
		assert.Regexp(t, `^t[0-9]+-TestName_IsUniqueAndPlain\.with_\.braces\._and\._spaces$`, one)
		assert.False(t, strings.ContainsAny(one, "{} :/"))
	})
}

func TestName_IsBounded(t *testing.T) {
	t.Run(strings.Repeat("long", 100), func(t *testing.T) {
		assert.Less(t, len(redistest.Name(t)), 100)
	})
}

func TestStart_RunsClusterNodes(t *testing.T) {
	node := redistest.Start(t, "--cluster-enabled", "yes")
	assert.Contains(t, node.Client(t).ClusterInfo(t.Context()).Val(), "cluster_state")
}

func TestStart_RunsReplicasAndSentinels(t *testing.T) {
	master := redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica := redistest.Start(t, "--replicaof", host, port)
	require.NoError(t, master.Client(t).Set(t.Context(), "k", "v", 0).Err())
	client := replica.Client(t)
	require.Eventually(t, func() bool { return client.Get(t.Context(), "k").Val() == "v" },
		10*time.Second, 10*time.Millisecond)

	sentinel := redis.NewSentinelClient(redistest.Start(t, "--sentinel").Options())
	defer sentinel.Close()
	require.NoError(t, sentinel.Monitor(t.Context(), "group", host, port, "1").Err())
	address, err := sentinel.GetMasterAddrByName(t.Context(), "group").Result()
	require.NoError(t, err)
	assert.Equal(t, []string{host, port}, address)
}
