package kinds_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// tokens is a resource that remembers the largest token it has seen. Only the lock guards it.
type tokens struct {
	largest int64
	seen    int
}

// check asserts that a holder's token is larger than all earlier ones.
func (k *tokens) check(t *testing.T, lease *holdfast.Lease) bool {
	ok := assert.Greater(t, lease.Token(), k.largest, "holder number %d, counted from 0", k.seen)
	k.largest, k.seen = lease.Token(), k.seen+1
	return ok
}

// Tokens increase, no matter how the lock passes between goroutines and runtimes. They also increase across a restart that loses all data.
func TestFencedLock_TokensIncrease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := redistest.Name(t)
	var largest tokens
	crowd := func(rounds int) {
		var all sync.WaitGroup
		for i := range 3 {
			rt := locktest.NewRuntime(t, server.Client(t), holdfast.Options{Handoff: holdfast.Handoff{Max: 5 + 50*i}})
			for j := range 6 {
				all.Go(func() {
					var options []holdfast.AcquireOption
					if j%3 == 0 {
						options = append(options, holdfast.WithLease(10*time.Second))
					}
					for range rounds {
						lease, err := rt.FencedLock(name).Acquire(context.Background(), options...)
						if !assert.NoError(t, err) || !largest.check(t, lease) {
							return
						}
						assert.NoError(t, lease.Release(context.Background()))
					}
				})
			}
		}
		all.Wait()
	}
	crowd(locktest.Scaled(1_000, 40))
	server.Restart() // the server keeps no data
	crowd(20)
	t.Logf("%d holders", largest.seen)
}

// Tokens never overtake the server's clock, no matter how fast they are used up. So a server that has lost its counter can start again from its
// clock, and its tokens are larger than all earlier ones.
func TestFencedLock_FullSpeedThenDataLoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := redistest.Name(t)
	rt := locktest.NewRuntime(t, server.Client(t), holdfast.Options{})
	var largest tokens
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range locktest.Scaled(1_000_000, 64) / 64 {
				lease, err := rt.FencedLock(name).Acquire(context.Background())
				if !assert.NoError(t, err) || !largest.check(t, lease) {
					return
				}
				_ = lease.Release(context.Background())
			}
		})
	}
	all.Wait()
	server.Restart()
	lease := locktest.Acquire(t, rt.FencedLock(name))
	largest.check(t, lease)
	locktest.Release(t, lease)
}

func TestFencedLock_ReentryKeepsTheToken(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "fenced lock")
	rt := p.Runtime(t, holdfast.Options{})
	owner := rt.NewOwner()
	outer := locktest.Acquire(t, p.Lock(rt), holdfast.WithOwner(owner))
	inner := locktest.Acquire(t, p.Lock(rt), holdfast.WithOwner(owner))
	assert.Equal(t, outer.Token(), inner.Token())
	state, err := p.Lock(rt).Inspect(t.Context())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, state.Token, outer.Token())
	locktest.Release(t, inner)
	locktest.Release(t, outer)
	plain := locktest.Acquire(t, rt.Lock(p.Name))
	assert.Zero(t, plain.Token(), "other kinds have none")
	locktest.Release(t, plain)
}

// Redisson takes a token by incrementing the counter. Holdfast and Redisson each continue from the value that the other has left in the counter.
func TestFencedLock_RedissonGoesOn(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "fenced lock")
	rt := p.Runtime(t, holdfast.Options{})
	counter := "redisson_lock_token:{" + p.Name + "}"
	lease := locktest.Acquire(t, p.Lock(rt))
	locktest.Release(t, lease)
	theirs, err := p.Redis.Incr(t.Context(), counter).Result()
	require.NoError(t, err)
	assert.Greater(t, theirs, lease.Token())
	next := locktest.Acquire(t, p.Lock(rt))
	assert.Greater(t, next.Token(), theirs)
	locktest.Release(t, next)
	assert.Equal(t, -time.Nanosecond, p.Redis.TTL(t.Context(), counter).Val(), "the counter has no TTL")
}
