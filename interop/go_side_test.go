package interop

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// goSide is our side, a runtime.
type goSide struct{ rt *holdfast.Runtime }

func (*goSide) String() string { return "Go" }

func (s *goSide) party(k kind, name string) party {
	switch k.counter {
	case "semaphore":
		return goCounter{s.rt.Semaphore(name)}
	case "latch":
		return goLatch{s.rt.CountDownLatch(name)}
	}
	return &goParty{lock: k.ours(s.rt, name)}
}

func (s *goSide) set(ctx context.Context, k kind, name string, n int) (err error) {
	switch k.counter {
	case "semaphore":
		_, err = s.rt.Semaphore(name).TrySetPermits(ctx, n)
	case "permit":
		_, err = s.rt.PermitSemaphore(name).TrySetPermits(ctx, n)
	case "latch":
		_, err = s.rt.CountDownLatch(name).TrySetCount(ctx, n)
	}
	return err
}

func (s *goSide) oust(ctx context.Context, k kind, name string, holder party) error {
	switch {
	case k.counter == "semaphore":
		return s.rt.Semaphore(name).Release(ctx, 1)
	case k.counter == "permit":
		return s.rt.PermitSemaphore(name).ReleaseID(ctx, holder.id())
	case k.plural():
		for _, member := range k.decisive(name, holder) {
			if err := s.force(ctx, s.rt.Lock(member)); err != nil {
				return err
			}
		}
		return nil
	}
	return s.force(ctx, k.ours(s.rt, name).(*holdfast.Lock))
}

var errWasFree = errors.New("nobody held the lock")

func (s *goSide) force(ctx context.Context, l *holdfast.Lock) error {
	if held, err := l.ForceRelease(ctx); err != nil || !held {
		return errors.Join(err, errWasFree)
	}
	return nil
}

// goParty holds a lease.
type goParty struct {
	lock  lock
	lease *holdfast.Lease
}

func (p *goParty) take(ctx context.Context, lease time.Duration) (err error) {
	var options []holdfast.AcquireOption
	if lease > 0 {
		options = append(options, holdfast.WithLease(lease))
	}
	p.lease, err = p.lock.Acquire(ctx, options...)
	return err
}

func (p *goParty) try(ctx context.Context, wait time.Duration) (bool, error) {
	lease, err := p.lock.Acquire(ctx, holdfast.WithWait(wait))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return false, nil
	}
	p.lease = lease
	return err == nil, err
}

func (p *goParty) give(ctx context.Context) error { return p.lease.Release(ctx) }

func (p *goParty) held(context.Context) (bool, error) { return p.lease.Valid(), nil }

func (p *goParty) id() string { return p.lease.ID() }

// goCounter holds one permit of a semaphore.
type goCounter struct{ *holdfast.Semaphore }

func (p goCounter) take(ctx context.Context, _ time.Duration) error { return p.Acquire(ctx, 1) }
func (p goCounter) give(ctx context.Context) error                  { return p.Release(ctx, 1) }
func (p goCounter) held(context.Context) (bool, error)              { return true, nil }
func (p goCounter) id() string                                      { return "" }

func (p goCounter) try(ctx context.Context, wait time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := p.Acquire(ctx, 1)
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return false, nil
	}
	return err == nil, err
}

// goLatch is a party of a latch: its method take waits until the count is zero, and its method give counts down.
type goLatch struct{ *holdfast.CountDownLatch }

func (p goLatch) take(ctx context.Context, _ time.Duration) error { return p.Wait(ctx) }
func (p goLatch) give(ctx context.Context) error                  { return p.CountDown(ctx) }
func (p goLatch) held(context.Context) (bool, error)              { return true, nil }
func (p goLatch) id() string                                      { return "" }

func (p goLatch) try(ctx context.Context, wait time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := p.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}
