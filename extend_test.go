package holdfast_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

func TestLease_ExtendSetsWhatIsLeft(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		lease := acquire(t, p.lock(p.runtime(t, holdfast.Options{})), holdfast.WithLease(time.Minute))
		for _, d := range []time.Duration{time.Hour, 24 * time.Hour, 10 * time.Second, 30 * time.Second} {
			before := time.Now()
			require.NoError(t, lease.Extend(t.Context(), d))
			after := time.Now()
			margin := d/100 + 2*time.Millisecond
			assert.False(t, lease.ExpiresAt().Before(before.Add(d-margin)), "from now to now + d")
			assert.False(t, lease.ExpiresAt().After(after.Add(d-margin)))
			assert.InDelta(t, d.Seconds(), p.redis.PTTL(t.Context(), p.name).Val().Seconds(), 5)
			assert.True(t, lease.Valid())
		}
		release(t, lease)
	})
}

func TestLease_ExtendMovesTheEnd(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		const short = 300 * time.Millisecond
		rt := p.runtime(t, holdfast.Options{})
		longer := acquire(t, p.lock(rt), holdfast.WithLease(short))
		require.NoError(t, longer.Extend(t.Context(), time.Minute))
		q := p.another(t)
		shorter := acquire(t, q.lock(rt), holdfast.WithLease(time.Minute))
		require.NoError(t, shorter.Extend(t.Context(), short))

		closed(t, "the shortened lease's end", shorter.Done())
		assert.ErrorIs(t, shorter.Err(), holdfast.ErrLeaseLost)
		await(t, "its key to expire", func() bool { return !q.exists(t) })
		stays(t, "the extended one is valid", short, longer.Valid)
		release(t, longer)
	})
}

func TestLease_ExtendRefuses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		rt := p.runtime(t, holdfast.Options{})
		watched := acquire(t, p.lock(rt))
		err := watched.Extend(t.Context(), time.Minute)
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.ErrorContains(t, err, "watchdog")
		assert.ErrorContains(t, err, p.name)
		release(t, watched)

		fixed := acquire(t, p.lock(rt), holdfast.WithLease(time.Minute))
		for _, d := range []time.Duration{0, -time.Second, 49 * time.Millisecond, 25 * time.Hour} {
			err := fixed.Extend(t.Context(), d)
			assert.ErrorIs(t, err, holdfast.ErrInvalid)
			assert.ErrorContains(t, err, d.String())
		}
		assert.True(t, fixed.Valid())
		release(t, fixed)
		assert.ErrorIs(t, fixed.Extend(t.Context(), time.Minute), holdfast.ErrNotHeld)

		expired := acquire(t, p.lock(rt), holdfast.WithLease(50*time.Millisecond))
		closed(t, "the end", expired.Done())
		assert.ErrorIs(t, expired.Extend(t.Context(), time.Minute), holdfast.ErrLeaseLost)

		deleted := acquire(t, p.lock(rt), holdfast.WithLease(time.Minute))
		require.NoError(t, p.redis.Del(t.Context(), p.name).Err())
		assert.ErrorIs(t, deleted.Extend(t.Context(), time.Minute), holdfast.ErrLeaseLost)
		assert.ErrorIs(t, deleted.Err(), holdfast.ErrLeaseLost, "the loss was noticed")
		assert.False(t, p.exists(t), "nothing re-creates a key")
	})
}

// While Redis refuses, an extension is repeated, but not all the time.
func TestLease_ExtendIsRepeatedWithPauses(t *testing.T) {
	t.Parallel()
	onOwnServer(t, func(t *testing.T, p *place) {
		const lease = 600 * time.Millisecond
		client := newClient(t, p.addr)
		var sent countPipelines
		client.AddHook(&sent)
		rt := newRuntime(t, client, holdfast.Options{})
		refuse := func(on string) { require.NoError(t, p.redis.ConfigSet(t.Context(), "min-replicas-to-write", on).Err()) }

		lasting := acquire(t, p.lock(rt), holdfast.WithLease(time.Minute))
		refuse("1")
		back := time.AfterFunc(lease/2, func() { refuse("0") })
		assert.NoError(t, lasting.Extend(t.Context(), time.Hour), "until Redis does not refuse any more")
		back.Stop()
		release(t, lasting)

		ending := acquire(t, p.lock(rt), holdfast.WithLease(lease))
		refuse("1")
		before := sent.n.Load()
		assert.Error(t, ending.Extend(t.Context(), time.Minute))
		assert.Less(t, sent.n.Load()-before, int64(200), "tries in %v", lease)
		assert.False(t, ending.Valid(), "until the lease is over")
		refuse("0")
	})
}
