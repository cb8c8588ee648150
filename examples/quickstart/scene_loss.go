package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// crash: C holds a lock when its connection to Redis is cut, so it can neither renew nor release the lock. C learns that its lease has
// expired before B can acquire the lock.
func crash(ctx context.Context, s *stage, name string) error {
	c, err := s.join(ctx, "C")
	if err != nil {
		return err
	}
	// C has lost its connection, so it cannot close cleanly. Its lock expires.
	defer func() { _ = c.leave(ctx) }()
	held, err := c.Lock(name).Acquire(ctx)
	if err != nil {
		return err
	}
	s.say("C", "acquired %q", name)
	next := s.b.Lock(name).AcquireAsync(ctx)
	if err := s.seesWaiting(ctx, s.b, name); err != nil {
		return err
	}
	s.say("B", "waits for the lock")

	if err := c.client.Close(); err != nil {
		return err
	}
	cut := time.Now()
	until := held.ExpiresAt() // zero once the lease has ended
	s.say("C", "is cut off from Redis: it can neither renew nor release the lock")
	granted := make(chan time.Time, 1)
	go func() {
		<-next.Done()
		granted <- time.Now()
	}()
	select {
	case <-held.Done():
	case <-ctx.Done():
		return fmt.Errorf("process C should learn that its lease is lost: %w", ctx.Err())
	}
	if !errors.Is(held.Err(), holdfast.ErrLeaseLost) {
		return unexpected(held.Err(), "C should learn that its lease is lost")
	}
	s.say("C", "learns before anyone else can acquire the lock: %v", held.Err())
	taken, err := next.Lease()
	if err != nil {
		return err
	}
	at := <-granted
	if at.Before(until) {
		return fmt.Errorf("process B acquired the lock %v before C's lease ended", until.Sub(at))
	}
	s.say("B", "has the lock %v after the cut, when the key has expired", short(at.Sub(cut)))
	return taken.Release(ctx)
}

// deleted: the key of A's lock is deleted. The next renewal detects that, and the context of A's work ends.
func deleted(ctx context.Context, s *stage, name string) error {
	held, err := s.a.Lock(name).Acquire(ctx)
	if err != nil {
		return err
	}
	s.say("A", "acquired %q and works under the lease's context", name)
	work, stop := held.Context(ctx)
	defer stop()

	if err := s.b.client.Del(ctx, s.key(name)).Err(); err != nil {
		return err
	}
	gone := time.Now()
	s.say("redis", "DEL %s", s.key(name))
	<-work.Done() // ends with the scene at the latest
	took := time.Since(gone)
	if cause := context.Cause(work); !errors.Is(cause, holdfast.ErrLeaseLost) || !errors.Is(held.Err(), holdfast.ErrLeaseLost) {
		return unexpected(cause, "A's work should end with the lost lease")
	}
	if took > lease {
		return fmt.Errorf("it took %v, longer than a lease, until A learned that its lease was lost", took)
	}
	s.say("A", "learns of it %v later; its context is cancelled: %v", short(took), held.Err())
	if err := held.Release(ctx); !errors.Is(err, holdfast.ErrLeaseLost) {
		return unexpected(err, "A's release should report that the lease was lost")
	}
	s.say("A", "gets the same error from a late Release")
	return nil
}
