package promises_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func TestLease_ExtendSetsWhatIsLeft(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		lease := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})), holdfast.WithLease(time.Minute))
		for _, d := range []time.Duration{time.Hour, 24 * time.Hour, 10 * time.Second, 30 * time.Second} {
			before := time.Now()
			require.NoError(t, lease.Extend(t.Context(), d))
			after := time.Now()
			margin := d/100 + 2*time.Millisecond
			expires := lease.ExpiresAt()
			looked := time.Since(after) // ExpiresAt took no longer than this, and its result is too early by no more than this: see Engine.Time
			assert.False(t, expires.Before(before.Add(d-margin-looked)), "the lease lasts for d, less the margin")
			assert.False(t, expires.After(after.Add(d-margin)))
			left := p.Redis.PTTL(t.Context(), p.Name).Val()
			assert.LessOrEqual(t, left, d)
			assert.GreaterOrEqual(t, left, d-time.Since(before)-time.Millisecond, "nothing is lost but the time that has passed, to a millisecond")
			assert.True(t, lease.Valid())
		}
		locktest.Release(t, lease)
	})
}

func TestLease_ExtendMovesTheEnd(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		short := locktest.Unhurried(300 * time.Millisecond)
		rt := p.Runtime(t, holdfast.Options{})
		longer := locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(short))
		require.NoError(t, longer.Extend(t.Context(), time.Minute))
		q := p.Another(t)
		shorter := locktest.Acquire(t, q.Lock(rt), holdfast.WithLease(time.Minute))
		require.NoError(t, shorter.Extend(t.Context(), short))

		locktest.Closed(t, "the shortened lease's end", shorter.Done())
		assert.ErrorIs(t, shorter.Err(), holdfast.ErrLeaseLost)
		locktest.Await(t, "its key to expire", func() bool { return !q.Exists(t) })
		locktest.Stays(t, "the extended one is valid", short, longer.Valid)
		locktest.Release(t, longer)
	})
}

func TestLease_ExtendRefuses(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		watched := locktest.Acquire(t, p.Lock(rt))
		err := watched.Extend(t.Context(), time.Minute)
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.ErrorContains(t, err, "watchdog")
		assert.ErrorContains(t, err, p.Name)
		locktest.Release(t, watched)

		fixed := locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(time.Minute))
		for _, d := range []time.Duration{0, -time.Second, 49 * time.Millisecond, 25 * time.Hour} {
			err := fixed.Extend(t.Context(), d)
			assert.ErrorIs(t, err, holdfast.ErrInvalid)
			assert.ErrorContains(t, err, d.String())
		}
		assert.True(t, fixed.Valid())
		locktest.Release(t, fixed)
		assert.ErrorIs(t, fixed.Extend(t.Context(), time.Minute), holdfast.ErrNotHeld)

		expired := locktest.AcquireBriefly(t, p.Lock(rt))
		locktest.Closed(t, "the end", expired.Done())
		assert.ErrorIs(t, expired.Extend(t.Context(), time.Minute), holdfast.ErrLeaseLost)

		deleted := locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(time.Minute))
		require.NoError(t, p.Redis.Del(t.Context(), p.Name).Err())
		assert.ErrorIs(t, deleted.Extend(t.Context(), time.Minute), holdfast.ErrLeaseLost)
		assert.ErrorIs(t, deleted.Err(), holdfast.ErrLeaseLost, "the loss was noticed")
		assert.False(t, p.Exists(t), "Extend does not create the key again")
	})
}

// While Redis refuses an extension, the runtime repeats the call, with pauses.
func TestLease_ExtendIsRepeatedWithPauses(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		lease := locktest.Unhurried(600 * time.Millisecond)
		client := p.Client(t)
		var sent locktest.CountPipelines
		client.AddHook(&sent)
		rt := locktest.NewRuntime(t, client, holdfast.Options{})
		refuse := func(on string) { require.NoError(t, p.Redis.ConfigSet(t.Context(), "min-replicas-to-write", on).Err()) }

		lasting := locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(time.Minute))
		refuse("1")
		back := time.AfterFunc(lease/2, func() { refuse("0") })
		assert.NoError(t, lasting.Extend(t.Context(), time.Hour), "Extend succeeds once Redis no longer refuses")
		back.Stop()
		locktest.Release(t, lasting)

		ending := locktest.Acquire(t, p.Lock(rt), holdfast.WithLease(lease))
		refuse("1")
		before := sent.N.Load()
		assert.Error(t, ending.Extend(t.Context(), time.Minute))
		assert.Less(t, sent.N.Load()-before, int64(200), "tries in %v", lease)
		assert.False(t, ending.Valid(), "Extend gives up when the lease is over")
		refuse("0")
	})
}
