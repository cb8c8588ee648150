package holdfast

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// Pending is an acquire that waits without a goroutine.
type Pending struct {
	lease   Lease
	request *wait.Request
	stop    func()
	done    chan struct{}

	mu        sync.Mutex
	err       error
	answered  bool
	taken     bool // Lease has returned the lease
	cancelled bool
}

// AcquireAsync starts to acquire the lock and returns at once. The acquire waits for the lock until ctx ends, without using a
// goroutine. Call Pending.Lease to get the lease, or Pending.Cancel to give up the acquire.
func (l *Lock) AcquireAsync(ctx context.Context, opts ...AcquireOption) *Pending {
	p := &Pending{done: make(chan struct{}), stop: func() {}}
	p.lease.engine, p.lease.name, p.lease.hold = l.rt.engine, l.address.Name, new(lease.Hold)
	spec, err := l.spec(ctx, opts, false)
	if err != nil {
		p.finish(err)
		return p
	}
	request, stop := l.rt.engine.AcquireAsync(ctx, &l.address, spec, p.lease.hold, p.finish)
	p.mu.Lock()
	p.request, p.stop = request, stop
	answered := p.answered
	p.mu.Unlock()
	if answered {
		stop()
	}
	return p
}

// finish is called once: by an actor, or by AcquireAsync if the acquire is refused before it is sent.
func (p *Pending) finish(err error) {
	p.mu.Lock()
	unwanted := p.cancelled && err == nil
	if unwanted { // granted while the cancellation was in flight
		err = p.lease.notAcquired(context.Canceled)
	}
	if err == nil {
		p.lease.guard.Store(p.lease.engine.Guard(p.lease.hold))
	}
	p.err, p.answered = err, true
	stop := p.stop
	p.mu.Unlock()
	stop()
	if unwanted {
		p.lease.engine.ReleaseAsync(p.lease.hold)
	}
	close(p.done)
}

// Done returns a channel that is closed when the outcome is known.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Lease blocks until the outcome is known, and returns the lease or the error. All calls return the same lease.
func (p *Pending) Lease() (*Lease, error) {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	p.taken = true
	return &p.lease, nil
}

// Cancel stops waiting. A granted lease is released unless a call of Lease has already returned it.
func (p *Pending) Cancel() {
	p.mu.Lock()
	first := !p.cancelled
	p.cancelled = true
	answered, granted, taken, request := p.answered, p.err == nil, p.taken, p.request
	if first && answered && granted && !taken {
		p.err = p.lease.notAcquired(context.Canceled)
	}
	p.mu.Unlock()
	switch {
	case !first:
	case !answered && request != nil:
		p.lease.engine.Cancel(request, context.Canceled)
	case answered && granted && !taken:
		p.lease.unguard()
		p.lease.engine.ReleaseAsync(p.lease.hold)
	}
}
