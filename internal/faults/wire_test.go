package faults_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// wire is a runtime behind a proxy, and two other runtimes whose links always work.
type wire struct {
	*locktest.Place
	proxy  *faultproxy.Proxy
	client *redis.Client // of rt
	rt     *holdfast.Runtime
	other  *holdfast.Runtime
	third  *holdfast.Runtime
	stalls *locktest.Stalls
	gone   *durations // how long orphans existed
}

// newWire returns a wire whose client would repeat commands if the runtime allowed that.
func newWire(t *testing.T, p *locktest.Place, patience time.Duration, options holdfast.Options) *wire {
	w := &wire{Place: p, proxy: faultproxy.New(t, p.Addr), stalls: locktest.WatchStalls(t, p), gone: &durations{}}
	w.client = locktest.ClientWith(t, &redis.Options{Addr: w.proxy.Addr(), ReadTimeout: patience, MaxRetries: 10})
	w.rt = locktest.NewRuntime(t, w.client, options)
	t.Cleanup(w.proxy.Heal)
	w.other, w.third = p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
	require.NoError(t, w.other.Check(t.Context())) // loads all scripts: the replies that are lost must be results, not NOSCRIPT errors
	locktest.Release(t, locktest.Acquire(t, w.Lock(w.rt)))
	return w
}

// another returns the same wire with another lock name.
func (w *wire) another(t *testing.T) *wire {
	v := *w
	v.Place = w.Another(t)
	return &v
}

func (w *wire) lock() *holdfast.Lock { return w.Lock(w.rt) }

// wait starts a waiter for the lock in a runtime that does not use the proxy.
func (w *wire) wait(t *testing.T) *holdfast.Pending { return w.Lock(w.third).AcquireAsync(t.Context()) }

// mine matches the requests about this lock.
func (w *wire) mine() func(request []byte) bool { return faultproxy.Containing(w.Name) }

// assertHeldBy asserts that the lease is the lock's only holder, and holds the lock once.
func (w *wire) assertHeldBy(t *testing.T, lease *holdfast.Lease) {
	t.Helper()
	assert.True(t, lease.Valid())
	assert.Equal(t, map[string]string{lease.ID(): "1"}, w.Fields(t))
}

// assertNext asserts that the waiter is the next holder, and the only one, and that the lock is free after its release.
func (w *wire) assertNext(t *testing.T, waiter *holdfast.Pending) {
	t.Helper()
	w.assertTakesOver(t, waiter)
	assert.False(t, w.Exists(t))
}

// assertTakesOver asserts that the waiter is the next holder, and the only one. It releases the lock.
func (w *wire) assertTakesOver(t *testing.T, waiter *holdfast.Pending) {
	t.Helper()
	locktest.Closed(t, "the next grant", waiter.Done())
	lease, err := waiter.Lease()
	require.NoError(t, err)
	w.assertHeldBy(t, lease)
	_, err = w.Lock(w.other).TryAcquire(t.Context())
	assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
	w.assertHeldBy(t, lease)
	assert.NoError(t, lease.Release(t.Context()))
	assert.NotContains(t, w.Fields(t), lease.ID())
}

// assertNoOrphan asserts that the key is gone in time, and that until then its TTL grows only if a late request is in flight.
func (w *wire) assertNoOrphan(t *testing.T, within time.Duration) {
	t.Helper()
	w.stalls.Take()
	start, last := time.Now(), 24*time.Hour
	locktest.Await(t, "the orphan's end", func() bool {
		late := w.late()
		left := w.Redis.PTTL(t.Context(), w.Name).Val()
		assert.True(t, late || left <= last, "prolonged from %v to %v", last, left)
		last = left
		return left < 0
	})
	took := time.Since(start)
	w.gone.add(took)
	assert.LessOrEqual(t, took, within+w.stalls.Slack())
}

// arrived returns when the server has received everything that the client has ever sent. The proxy may still keep connections open that the client
// has closed. arrived first waits until the proxy has closed these connections, too, and then until a call on an open connection is answered.
func (w *wire) arrived(t *testing.T) {
	t.Helper()
	locktest.Await(t, "late requests", func() bool { return !w.late() })
	elsewhere := w.Another(t).Lock(w.rt)
	locktest.Await(t, "the answers", func() bool {
		_, err := elsewhere.Inspect(t.Context())
		return err == nil
	})
}

// late reports whether requests are in flight on connections that the client has given up.
func (w *wire) late() bool {
	stats := w.client.PoolStats()
	open := stats.TotalConns + stats.PubSubStats.Active
	if stats.PipelineStats != nil {
		open += stats.PipelineStats.TotalConns
	}
	return w.proxy.Open() > int(open)
}

// tries returns how often to try. Only the plain lock gets the full number, because the other kinds share its code.
func tries(p *locktest.Place, full, least int) int {
	switch {
	case p.Kind.Queued: // each grant needs messages, which take time
		full /= 20
	case p.Kind.Name != locktest.Kinds[0].Name:
		full /= 10
	}
	return max(locktest.Scaled(full, least), least)
}

// durations are times that were measured.
type durations struct{ all []time.Duration }

func (d *durations) add(one time.Duration) { d.all = append(d.all, one) }

// log logs the median, which it returns, and the worst time.
func (d *durations) log(t *testing.T, what string) (median time.Duration) {
	if len(d.all) == 0 {
		return 0
	}
	slices.Sort(d.all)
	median = d.all[len(d.all)/2]
	t.Logf("%s: %d, median %v, worst %v", what, len(d.all), median, d.all[len(d.all)-1])
	return median
}
