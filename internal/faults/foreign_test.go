package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// vanishings are ways in which somebody else may change the key of a held lock.
var vanishings = map[string]struct {
	do    func(p *locktest.Place) error
	taken bool // whether something else has the key afterwards
}{
	"deleted": {func(p *locktest.Place) error { return p.Redis.Del(context.Background(), p.Name).Err() }, false},
	"flushed": {func(p *locktest.Place) error { return p.Redis.FlushAll(context.Background()).Err() }, false},
	"renamed": {func(p *locktest.Place) error {
		return p.Redis.Rename(context.Background(), p.Name, p.Name+"-away").Err()
	}, false},
	"expired by hand":   {func(p *locktest.Place) error { return p.Redis.PExpire(context.Background(), p.Name, -1).Err() }, false},
	"field deleted":     {func(p *locktest.Place) error { return deleteFields(p) }, false},
	"made a string":     {func(p *locktest.Place) error { return p.Redis.Set(context.Background(), p.Name, "x", 0).Err() }, true},
	"made another hash": {func(p *locktest.Place) error { return replaceBy(p, "HSET", "city", "Ulm") }, true},
	"made a list":       {func(p *locktest.Place) error { return replaceBy(p, "RPUSH", "x") }, true},
}

func deleteFields(p *locktest.Place) error {
	for _, field := range p.Redis.HKeys(context.Background(), p.Name).Val() {
		if err := p.Redis.HDel(context.Background(), p.Name, field).Err(); err != nil {
			return err
		}
	}
	return nil
}

func replaceBy(p *locktest.Place, command string, args ...any) error {
	_, err := p.Redis.TxPipelined(context.Background(), func(pipe redis.Pipeliner) error {
		pipe.Del(context.Background(), p.Name)
		return pipe.Do(context.Background(), append([]any{command, p.Name}, args...)...).Err()
	})
	return err
}

// The key of a held lock disappears or is replaced by something else. The holder learns of the loss within a third of the lease, or from its release
// if that comes first. Keys of other owners are not changed.
func TestFault_KeyGoneOrForeign(t *testing.T) {
	t.Parallel()
	for how, v := range vanishings {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			places := locktest.OnOneServer(t)
			stalls := locktest.WatchStalls(t, places[0])
			for _, p := range places {
				rt := p.Runtime(t, holdfast.Options{Lease: vanishedLease()})
				showLossIsTold(t, p, rt, v.do, stalls)
				q := p.Another(t)
				held := locktest.Acquire(t, q.Lock(rt))
				require.NoError(t, v.do(q))
				err := held.Release(t.Context())
				assert.ErrorIs(t, err, holdfast.ErrLeaseLost, p.Kind.Name)
				assert.ErrorContains(t, err, q.Name)
				if v.taken {
					showForeign(t, q, rt)
				} else {
					locktest.Release(t, locktest.Acquire(t, q.Lock(rt)))
				}
			}
		})
	}
}

func vanishedLease() time.Duration { return locktest.Unhurried(600 * time.Millisecond) }

func showLossIsTold(t *testing.T, p *locktest.Place, rt *holdfast.Runtime, vanish func(*locktest.Place) error, stalls *locktest.Stalls) {
	held := locktest.Acquire(t, p.Lock(rt))
	require.NoError(t, vanish(p))
	start := time.Now()
	told := locktest.Closed(t, "the loss", held.Done())
	assert.LessOrEqual(t, told.Sub(start), vanishedLease()/3+stalls.Slack(), p.Kind.Name)
	assert.ErrorIs(t, held.Release(t.Context()), holdfast.ErrLeaseLost, p.Kind.Name)
}

// showForeign asserts that a key that is not a lock is recognized as such, and not changed. Even a hash with a field need not be a lock.
func showForeign(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) {
	what := p.Redis.Type(t.Context(), p.Name).Val()
	_, err := p.Lock(rt).TryAcquire(t.Context())
	if assert.Error(t, err) {
		assert.ErrorContains(t, err, p.Name)
	}
	_, err = p.Lock(rt).Inspect(t.Context())
	assert.ErrorIs(t, err, holdfast.ErrForeignKey, p.Kind.Name)
	_, err = p.Lock(rt).ForceRelease(t.Context())
	assert.ErrorIs(t, err, holdfast.ErrForeignKey, p.Kind.Name)
	assert.ErrorContains(t, err, p.Name)
	assert.Equal(t, what, p.Redis.Type(t.Context(), p.Name).Val(), "it is left alone")
}

// The counter of the fencing tokens is replaced by something else, or reaches its limit, while a lock is held and waited for. The holder keeps the
// lock, and everybody else is refused at once with the reason. When the counter has been repaired, tokens continue.
func TestFault_TokenCounterThatIsNone(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"abc", "9007199254740991", "9223372036854775807", "-1"} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			p := locktest.PlaceOf(t, "fenced lock")
			counter := "redisson_lock_token:{" + p.Name + "}"
			rt, other := p.Runtime(t, holdfast.Options{Lease: longLease}), p.Runtime(t, holdfast.Options{Lease: longLease})
			held := locktest.Acquire(t, p.Lock(rt))
			waiting := []*holdfast.Pending{
				p.Lock(rt).AcquireAsync(t.Context(), holdfast.WithLease(time.Minute)), // a fixed lease needs a grant of its own, so Redis must be asked
				p.Lock(other).AcquireAsync(t.Context()),
			}
			p.WaitForWaiting(t, other, 1)
			require.NoError(t, p.Redis.Set(t.Context(), counter, value, 0).Err())
			assert.True(t, held.Valid())
			locktest.Release(t, held)
			for _, w := range waiting {
				locktest.Closed(t, "the answer", w.Done())
				_, err := w.Lease()
				require.ErrorIs(t, err, holdfast.ErrForeignKey)
				assert.ErrorContains(t, err, counter)
			}
			_, err := p.Lock(rt).TryAcquire(t.Context())
			require.ErrorIs(t, err, holdfast.ErrForeignKey)
			assert.False(t, p.Exists(t))
			assert.Equal(t, value, p.Redis.Get(t.Context(), counter).Val(), "it is left alone")

			require.NoError(t, p.Redis.Set(t.Context(), counter, held.Token(), 0).Err())
			next := locktest.Acquire(t, p.Lock(other))
			assert.Greater(t, next.Token(), held.Token())
			locktest.Release(t, next)
		})
	}
}
