package faults_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A password is changed, connections are closed, and the client learns the new password only after a while. Releases made meanwhile still arrive,
// and waiters are served.
func TestFault_PasswordRotation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "old")
	admin := locktest.ClientWith(t, &redis.Options{Addr: server.Addr(), Password: "old"})
	var password atomic.Value
	password.Store("old")
	rt := locktest.NewRuntime(t, locktest.ClientWith(t, &redis.Options{
		Addr: server.Addr(), CredentialsProvider: func() (string, string) { return "", password.Load().(string) },
	}), holdfast.Options{})
	ctx := t.Context()
	semaphore := rt.Semaphore("permits")
	require.NoError(t, semaphore.Release(ctx, 5))
	require.NoError(t, semaphore.Acquire(ctx, 5))
	lease := locktest.Acquire(t, rt.Lock("lock"))
	taken := locktest.Acquire(t, rt.Lock("taken"), holdfast.WithLease(2*time.Second))
	waiting := rt.FairLock("taken").AcquireAsync(ctx)

	_, err := admin.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ConfigSet(ctx, "requirepass", "new")
		pipe.ClientKillByFilter(ctx, "type", "normal", "skipme", "yes")
		pipe.ClientKillByFilter(ctx, "type", "pubsub")
		return nil
	})
	require.NoError(t, err)
	learned := time.AfterFunc(700*time.Millisecond, func() { password.Store("new") })
	defer learned.Stop()
	_, err = rt.Lock("free").TryAcquire(ctx)
	require.ErrorContains(t, err, "WRONGPASS", "the password is wrong, and a try does not wait")
	released := make(chan error, 2)
	go func() { released <- semaphore.Release(context.Background(), 5) }()
	go func() { released <- lease.Release(context.Background()) }()
	locktest.Acquire(t, rt.Lock("free"))
	assert.NoError(t, <-released)
	assert.NoError(t, <-released)
	look := locktest.ClientWith(t, &redis.Options{Addr: server.Addr(), Password: "new"})
	assert.Equal(t, "5", look.Get(ctx, "permits").Val())
	assert.Zero(t, look.Exists(ctx, "lock").Val())
	served, err := waiting.Lease()
	require.NoError(t, err)
	locktest.Release(t, served)
	assert.Error(t, taken.Err())
}
