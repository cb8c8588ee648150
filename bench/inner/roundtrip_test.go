package inner

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// BenchmarkRoundTrip measures a lock that the goroutines of one process pass on to each other. The process keeps the lock for a turn and seldom calls
// Redis, so the result is the cost of the actors. With goroutines=1, nobody waits for the lock. So the process acquires and releases it in Redis for
// each pair.
func BenchmarkRoundTrip(b *testing.B) {
	rt, err := holdfast.New(newClient(b, 0), holdfast.Options{Lease: lease})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = rt.Close(context.Background()) })
	for _, c := range []struct {
		name       string
		goroutines int
	}{{"goroutines=1", 1}, {"goroutines=2", 2}, {"goroutines=64", 64}} {
		lock := rt.Lock("bench:roundtrip:" + c.name)
		load := load{c.goroutines, func(w *worker) {
			for w.take(1) > 0 {
				lease, err := lock.Acquire(w)
				if err == nil {
					err = lease.Release(w)
				}
				if err != nil {
					w.fail(err)
					return
				}
				w.done(1, 0)
			}
		}}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			measure(b, load, 0, b.N)
		})
	}
}
