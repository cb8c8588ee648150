package faults_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// While a lock is held, another program turns a key beside the lock's own key into a set. The holder can still release the lock, and ForceRelease can
// still free it. An operation that needs the changed key fails, and its error names that key.
func TestFault_KeyBesideTheLockIsASet(t *testing.T) {
	t.Parallel()
	for pattern, kind := range map[string]string{
		"redisson_lock_queue:{%s}": "fair lock", "redisson_lock_timeout:{%s}": "fair lock", "holdfast_waiting:{%s}": "fair lock",
		"redisson_lock_token:{%s}": "fenced lock", "redisson_lock__channel:{%s}:crowd": "fenced lock",
	} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			p := locktest.PlaceOf(t, kind)
			m := mappedPlace(t, p)
			held := locktest.Acquire(t, p.Lock(m.rt))
			m.makeSet(pattern)
			_, err := p.Lock(m.rt).Inspect(t.Context())
			m.worksOrNames(err)
			_, err = p.Lock(m.other).TryAcquire(t.Context())
			m.worksOrNames(err)
			require.NoError(t, held.Release(t.Context()))
			assert.Zero(t, p.Redis.Exists(t.Context(), m.raw).Val())

			again, err := p.Lock(m.rt).TryAcquire(t.Context())
			if m.worksOrNames(err); err == nil {
				locktest.Release(t, again)
			}
			require.NoError(t, p.Redis.HSet(t.Context(), m.raw, locktest.Stranger(1), 1).Err())
			freed, err := p.Lock(m.other).ForceRelease(t.Context())
			require.NoError(t, err)
			assert.True(t, freed)
			assert.Zero(t, p.Redis.Exists(t.Context(), m.raw).Val())
			assert.Equal(t, []string{"x"}, p.Redis.SMembers(t.Context(), m.key).Val(), "it is left alone")
		})
	}
}

// One key of a semaphore, a permit semaphore or a latch becomes a set. This may be the key with the count or another one. An operation that needs
// this key fails, and the error names the key.
func TestFault_KeyOfACountIsASet(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"%s", "{%s}:timeout", "holdfast_want:{%s}"} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			p := locktest.Somewhere(t)
			m := mappedPlace(t, p)
			for kind, operations := range counts(m.rt, p.Name) {
				require.NoError(t, operations[0](t.Context()), kind)
				m.makeSet(pattern)
				for _, operation := range operations {
					m.worksOrNames(operation(t.Context()))
				}
				assert.Equal(t, []string{"x"}, p.Redis.SMembers(t.Context(), m.key).Val(), kind)
				require.NoError(t, p.Redis.Del(t.Context(), m.raw, m.key).Err())
			}
			assert.Positive(t, m.named)
		})
	}
}

// A permit is lost when the key of the permits becomes something else. The error of its release names that key.
func TestFault_KeyOfAHeldPermitIsASet(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	m := mappedPlace(t, p)
	s := m.rt.PermitSemaphore(p.Name)
	require.NoError(t, s.SetPermits(t.Context(), 2))
	held, err := s.Acquire(t.Context())
	require.NoError(t, err)
	m.makeSet("{%s}:timeout")
	err = held.Release(t.Context())
	require.ErrorIs(t, err, holdfast.ErrLeaseLost)
	m.worksOrNames(err)
}

// The key in which a leader is announced is a set. The process leads all the same, and logs which key is in the way.
func TestFault_KeyOfALeaderIsASet(t *testing.T) {
	t.Parallel()
	p := locktest.Somewhere(t)
	m, log := mappedPlace(t, p), &leaky{}
	m.makeSet("holdfast_leader:{%s}")
	rt := p.Runtime(t, holdfast.Options{NameMapper: prefixed, Logger: slog.New(slog.NewTextHandler(log, nil))})
	election := rt.Election(p.Name, holdfast.ElectionOptions{})
	require.NoError(t, election.Run(t.Context(), func(ctx context.Context, _ holdfast.Term) error {
		_, err := election.Leader(ctx)
		require.Error(t, err)
		m.worksOrNames(err)
		locktest.Await(t, "the log", func() bool { return strings.Contains(log.logged(), m.key) })
		return holdfast.ErrResign
	}))
	assert.Zero(t, p.Redis.Exists(t.Context(), m.raw).Val())
}

// counts returns the operations of each kind of object that keeps a count. The first operation of each kind sets the count.
func counts(rt *holdfast.Runtime, name string) map[string][]func(ctx context.Context) error {
	semaphore, permits, latch := rt.Semaphore(name), rt.PermitSemaphore(name), rt.CountDownLatch(name)
	return map[string][]func(ctx context.Context) error{
		"semaphore": {
			func(ctx context.Context) error { _, err := semaphore.TrySetPermits(ctx, 3); return err },
			func(ctx context.Context) error { return semaphore.TryAcquire(ctx, 1) },
			func(ctx context.Context) error { return semaphore.Acquire(ctx, 1) },
			func(ctx context.Context) error { return semaphore.Release(ctx, 1) },
			func(ctx context.Context) error { _, err := semaphore.Available(ctx); return err },
			func(ctx context.Context) error { _, err := semaphore.Drain(ctx); return err },
			func(ctx context.Context) error { _, err := semaphore.Delete(ctx); return err },
		},
		"permit semaphore": {
			func(ctx context.Context) error { return permits.SetPermits(ctx, 3) },
			func(ctx context.Context) error { _, err := permits.TryAcquire(ctx); return err },
			func(ctx context.Context) error { _, err := permits.Acquire(ctx); return err },
			func(ctx context.Context) error { return permits.AddPermits(ctx, 1) },
			func(ctx context.Context) error { _, err := permits.Acquired(ctx); return err },
			func(ctx context.Context) error { return permits.ReleaseID(ctx, strings.Repeat("0", 32)) },
			func(ctx context.Context) error { _, err := permits.Delete(ctx); return err },
		},
		"latch": {
			func(ctx context.Context) error { _, err := latch.TrySetCount(ctx, 1); return err },
			func(ctx context.Context) error { _, err := latch.Count(ctx); return err },
			func(ctx context.Context) error { return latch.CountDown(ctx) },
			func(ctx context.Context) error { _, err := latch.Delete(ctx); return err },
		},
	}
}

// mapped is a lock whose key in Redis differs from its name, together with two runtimes that use the lock.
type mapped struct {
	t         *testing.T
	redis     redis.UniversalClient
	raw, key  string // the lock's own key, and the key that is a set
	rt, other *holdfast.Runtime
	named     int // number of errors that have named the key
}

func prefixed(name string) string { return "app:" + name }

func mappedPlace(t *testing.T, p *locktest.Place) *mapped {
	options := holdfast.Options{Lease: longLease, NameMapper: prefixed}
	return &mapped{t: t, redis: p.Redis, raw: prefixed(p.Name), rt: p.Runtime(t, options), other: p.Runtime(t, options)}
}

func (m *mapped) makeSet(pattern string) {
	m.key = fmt.Sprintf(pattern, m.raw)
	require.NoError(m.t, m.redis.Del(m.t.Context(), m.key).Err())
	require.NoError(m.t, m.redis.SAdd(m.t.Context(), m.key, "x").Err())
}

// worksOrNames accepts nil, ErrNotAcquired and ErrNotHeld. Any other error must be an ErrForeignKey that names m.key, the key that is now a set. The
// error must not name the lock's own key twice.
func (m *mapped) worksOrNames(err error) {
	m.t.Helper()
	if err == nil || errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrNotHeld) {
		return
	}
	m.named++
	assert.ErrorIs(m.t, err, holdfast.ErrForeignKey)
	assert.ErrorContains(m.t, err, m.key)
	assert.LessOrEqual(m.t, strings.Count(err.Error(), strconv.Quote(m.raw)), 1, err)
}
