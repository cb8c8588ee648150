package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// valid is implemented by leases that know whether they are still held.
type valid interface{ Valid() bool }

// runHolding acquires all locks, holds them for the window, and releases them.
func (c *child) runHolding(o Order) (*Sample, error) {
	w := c.order.Workload
	ctx, cancel := context.WithTimeout(context.Background(), far)
	defer cancel()
	held, stops := make([]peer.Held, w.Names), make([]func(), w.Names)
	var lost atomic.Int32
	if err := c.warmUp(ctx); err != nil {
		return nil, err
	}
	sample := &Sample{Heap: -heap(), Allocs: -1}
	start := time.Now()
	err := c.forAll(len(held), func(i int) (err error) {
		if held[i], err = c.clients[0].Acquire(ctx, peer.Exclusive, w.NameOf(c.order.Prefix, i)); err != nil {
			return err
		}
		if k, ok := held[i].(peer.Keeper); ok {
			stops[i] = k.Keep(ctx, func() { lost.Add(1) })
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("acquire %d locks: %w", w.Names, err)
	}
	sample.AcquireNs = int64(time.Since(start))
	sample.Heap += heap()

	c.report(Report{Event: Mark})
	cpu := cpuTime()
	start = time.Now()
	time.Sleep(time.Duration(o.Window))
	sample.Elapsed, sample.CPU = int64(time.Since(start)), int64(cpuTime()-cpu)
	c.report(Report{Event: Mark})

	for _, h := range held {
		if v, ok := h.(valid); ok && !v.Valid() {
			lost.Add(1)
		}
	}
	var failed atomic.Int32
	start = time.Now()
	_ = c.forAll(len(held), func(i int) error {
		if stops[i] != nil {
			stops[i]()
		}
		if err := held[i].Release(ctx); err != nil {
			failed.Add(1)
		}
		return nil
	})
	sample.DrainNs = int64(time.Since(start))
	sample.Lost = max(int(lost.Load()), int(failed.Load())) // a failed release may be the only sign of a loss
	return sample, nil
}

// warmUp opens connections and fills pools, so that they do not count as costs of a lock.
func (c *child) warmUp(ctx context.Context) error {
	return c.forAll(256, func(i int) error {
		held, err := c.clients[0].Acquire(ctx, peer.Exclusive, fmt.Sprintf("%s:warm:%d", c.order.Prefix, i))
		if err != nil {
			return err
		}
		return held.Release(ctx)
	})
}

// forAll calls the function `do` n times, on the workload's goroutines, and stops at the first error.
func (c *child) forAll(n int, do func(i int) error) error {
	goroutines := c.order.Workload.Goroutines
	var group sync.WaitGroup
	var first atomic.Pointer[error]
	var done atomic.Int64
	for g := range goroutines {
		group.Go(func() {
			for i := g; i < n && first.Load() == nil; i += goroutines {
				if err := do(i); err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				if done.Add(1)%10_000 == 0 {
					c.report(Report{Event: Progress, Pairs: done.Load()})
				}
			}
		})
	}
	group.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}
