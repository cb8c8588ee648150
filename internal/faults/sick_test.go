package faults_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// sickness is a way in which a server fails to serve. The client p.Redis connects before the server falls sick, and keeps working as far as the
// server lets it.
type sickness struct {
	name   string
	args   []string                                               // of the server
	fall   func(t *testing.T, p *locktest.Place) (recover func()) // makes the server sick
	says   string                                                 // every error contains this
	typed  func(error) bool                                       // every error is of this type
	reads  bool                                                   // calls that write nothing succeed
	frees  bool                                                   // a lock can be released
	may    bool                                                   // calls that write may succeed: Redis checks memory only before a script's first write
	hides  bool                                                   // a client with many retries does not return the reason
	spares bool                                                   // open connections are not affected
}

var sicknesses = []sickness{
	{name: "stopped", fall: stopped, says: "Redis at ", typed: isTimeout},
	{name: "down", fall: down, says: "connection refused", typed: isDial},
	{name: "paused", fall: paused, says: "Redis at ", typed: isTimeout},
	{name: "too many clients", fall: configured("maxclients", "1", "10000"), says: "maxclients", typed: isCut, spares: true, hides: true},
	{name: "loading", args: []string{"--enable-debug-command", "yes"}, fall: loading, says: "LOADING", typed: isReply},
	{name: "busy", fall: busy, says: "BUSY", typed: isReply},
	{name: "replica", fall: replica, says: "READONLY", typed: isReply, reads: true},
	{name: "replica without its master", fall: orphan, says: "MASTERDOWN", typed: isReply},
	{name: "too few replicas", fall: configured("min-replicas-to-write", "1", "0"), says: "NOREPLICAS", typed: isReply, reads: true},
	{name: "full", fall: configured("maxmemory", "1", "0"), says: "OOM", typed: isReply, reads: true, frees: true, may: true},
	{name: "cannot save", args: []string{"--enable-protected-configs", "yes"}, fall: unsaved, says: "MISCONF", typed: isReply, reads: true},
	{name: "wants a password", fall: configured("requirepass", "new", ""), says: "NOAUTH", typed: isReply, spares: true},
}

func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

func isDial(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

func isCut(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || strings.HasSuffix(err.Error(), ": EOF")
}

func down(_ *testing.T, p *locktest.Place) func() {
	p.Server.Kill()
	return p.Server.Restart
}

func stopped(_ *testing.T, p *locktest.Place) func() {
	p.Server.Pause()
	return p.Server.Resume
}

func paused(t *testing.T, p *locktest.Place) func() {
	require.NoError(t, p.Redis.Do(t.Context(), "client", "pause", 60_000, "write").Err())
	return func() { assert.NoError(t, p.Redis.Do(context.Background(), "client", "unpause").Err()) }
}

// loading makes the server save its data and load it again, slowly.
func loading(t *testing.T, p *locktest.Place) func() {
	set := func(name, value string) {
		assert.NoError(t, p.Redis.ConfigSet(context.Background(), name, value).Err())
	}
	require.NoError(t, p.Redis.Do(t.Context(), "debug", "populate", 20_000, "filling", 10).Err())
	set("loading-process-events-interval-bytes", "1024")
	set("key-load-delay", "500")
	client := locktest.ClientWith(t, &redis.Options{Addr: p.Addr, ReadTimeout: -1})
	ended := make(chan error, 1)
	go func() { ended <- client.Do(context.Background(), "debug", "reload").Err() }()
	locktest.Await(t, "loading", func() bool {
		return strings.HasPrefix(errorText(p.Redis.Get(context.Background(), "x").Err()), "LOADING")
	})
	return func() {
		set("key-load-delay", "0")
		assert.NoError(t, <-ended)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// busy runs an endless script, which can be killed because it writes nothing.
func busy(t *testing.T, p *locktest.Place) func() {
	require.NoError(t, p.Redis.ConfigSet(t.Context(), "busy-reply-threshold", "10").Err())
	client := locktest.ClientWith(t, &redis.Options{Addr: p.Addr, ReadTimeout: -1, MaxRetries: -1})
	ended := make(chan error, 1)
	go func() { ended <- client.Eval(context.Background(), "while true do end", nil).Err() }()
	locktest.Await(t, "a busy server", func() bool {
		return strings.HasPrefix(errorText(p.Redis.Get(context.Background(), "x").Err()), "BUSY")
	})
	return func() {
		assert.NoError(t, p.Redis.ScriptKill(context.Background()).Err())
		assert.ErrorContains(t, <-ended, "killed")
	}
}

func replica(t *testing.T, p *locktest.Place) func() {
	require.NoError(t, p.Redis.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	return func() { assert.NoError(t, p.Redis.ReplicaOf(context.Background(), "no", "one").Err()) }
}

func orphan(t *testing.T, p *locktest.Place) func() {
	require.NoError(t, p.Redis.ConfigSet(t.Context(), "replica-serve-stale-data", "no").Err())
	return replica(t, p)
}

// configured changes one setting; the returned function changes it back.
func configured(name, sick, well string) func(t *testing.T, p *locktest.Place) func() {
	return func(t *testing.T, p *locktest.Place) func() {
		require.NoError(t, p.Redis.ConfigSet(t.Context(), name, sick).Err())
		return func() { assert.NoError(t, p.Redis.ConfigSet(context.Background(), name, well).Err()) }
	}
}

// unsaved removes the directory into which the server saves its data.
func unsaved(t *testing.T, p *locktest.Place) func() {
	dir, err := os.MkdirTemp(t.TempDir(), "gone")
	require.NoError(t, err)
	home := p.Redis.ConfigGet(t.Context(), "dir").Val()["dir"]
	require.NoError(t, p.Redis.ConfigSet(t.Context(), "dir", dir).Err())
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, p.Redis.ConfigSet(t.Context(), "save", "3600 1").Err())
	locktest.Await(t, "saving to fail", func() bool {
		_ = p.Redis.BgSave(context.Background()).Err() // a save may already be running
		return strings.HasPrefix(errorText(p.Redis.Set(context.Background(), "filling", 1, 0).Err()), "MISCONF")
	})
	return func() {
		assert.NoError(t, p.Redis.ConfigSet(context.Background(), "save", "").Err())
		assert.NoError(t, p.Redis.ConfigSet(context.Background(), "dir", home).Err())
	}
}

// clients are options under which go-redis may wait and retry for very long.
var clients = map[string]func(*redis.Options){
	"default":      func(*redis.Options) {},
	"no timeouts":  func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = -1, -1 },
	"no deadlines": func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = -2, -2 },
	"a minute": func(o *redis.Options) {
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = time.Minute, time.Minute, time.Hour
	},
	"100 retries":        func(o *redis.Options) { o.MaxRetries, o.MaxRetryBackoff = 100, time.Second },
	"one connection":     func(o *redis.Options) { o.PoolSize = 1 },
	"idle connections":   func(o *redis.Options) { o.MinIdleConns = 8 },
	"contexts count":     func(o *redis.Options) { o.ContextTimeoutEnabled = true },
	"contexts count not": func(o *redis.Options) { o.ContextTimeoutEnabled = false },
	"all at once": func(o *redis.Options) {
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.MaxRetries, o.PoolSize, o.MinIdleConns = -1, -1, time.Hour, 100, 1, 1
	},
}

func clientOf(t *testing.T, p *locktest.Place, name string) *redis.Client {
	options := &redis.Options{Addr: p.Addr}
	clients[name](options)
	return locktest.ClientWith(t, options)
}
