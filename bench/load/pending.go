package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// settle is the pause between the start of the acquires and the measurement of the cost of waiting.
const settle = 500 * time.Millisecond

// runPending starts very many acquires of a lock that another client holds. After the window, the harness orders the holder to release the lock, and
// then sends Drain to this process. From then on, runPending waits until all acquires have been served, but not for longer than the window lasted.
// Then it gives up the remaining acquires.
func (c *child) runPending(o Order) (*Sample, error) {
	w, client := c.order.Workload, c.clients[len(c.clients)-1]
	ctx, cancel := context.WithTimeout(context.Background(), far)
	defer cancel()
	if err := c.warmUp(ctx); err != nil {
		return nil, err
	}
	p := &pending{c: c, ctx: ctx, client: client, name: w.NameOf(c.order.Prefix, 0)}
	sample := &Sample{Heap: -heap(), Allocs: -1}
	start := time.Now()
	if s, ok := client.(peer.Starter); ok {
		p.start(s, w.Names)
	} else {
		p.spawn(w.Names)
	}
	sample.AcquireNs = int64(time.Since(start))
	time.Sleep(settle)
	sample.Heap += heap()

	c.report(Report{Event: Mark})
	cpu := cpuTime()
	start = time.Now()
	time.Sleep(time.Duration(o.Window))
	sample.Elapsed, sample.CPU = int64(time.Since(start)), int64(cpuTime()-cpu)
	c.report(Report{Event: Mark})
	sample.Errors = int(p.errors.Load())
	if err := p.first.Load(); err != nil {
		sample.Error = (*err).Error()
	}

	for o := range c.orders {
		if o.Do == Drain {
			break
		}
	}
	start = time.Now()
	ended := make(chan struct{})
	go func() {
		p.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Duration(o.Window)):
	}
	sample.DrainNs, sample.Served = int64(time.Since(start)), p.served.Load()
	cancel()
	<-ended
	return sample, nil
}

type pending struct {
	c      *child
	ctx    context.Context
	client peer.Client
	name   string
	group  sync.WaitGroup
	served atomic.Int64
	errors atomic.Int64
	first  atomic.Pointer[error]
}

// serve takes the result of one acquire. It releases the lock if the acquire got it, and counts success or failure.
func (p *pending) serve(held peer.Held, err error) {
	if err == nil {
		err = held.Release(p.ctx)
	}
	if err == nil {
		p.served.Add(1)
	} else if p.ctx.Err() == nil {
		p.errors.Add(1)
		p.first.CompareAndSwap(nil, &err)
	}
}

// spawn starts n acquires, each on its own goroutine.
func (p *pending) spawn(n int) {
	for range n {
		p.group.Go(func() { p.serve(p.client.Acquire(p.ctx, peer.Exclusive, p.name)) })
	}
}

// start starts n acquires. A single goroutine takes their results one after the other, in the order in which the acquires were started.
func (p *pending) start(s peer.Starter, n int) {
	waiting := make([]peer.Waiting, n)
	for i := range waiting {
		waiting[i] = s.Start(p.ctx, p.name)
	}
	p.group.Go(func() {
		for _, w := range waiting {
			<-w.Done()
			p.serve(w.Held())
		}
	})
}
