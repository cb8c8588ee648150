package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// crash: C holds a lock and its connection to Redis is cut, so it can neither renew nor release. C learns that the lock is
// lost before B can acquire it.
func crash(ctx context.Context, s *stage, name string) error {
	c, err := s.join(ctx, "C")
	if err != nil {
		return err
	}
	// C has lost its connection, so it cannot close cleanly. It need not, because its lock expires.
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
	s.say("B", "waits for it")

	if err := c.client.Close(); err != nil {
		return err
	}
	cut := time.Now()
	s.say("C", "is cut off from Redis: it renews nothing and releases nothing")
	granted := make(chan time.Time, 1)
	go func() {
		<-next.Done()
		granted <- time.Now()
	}()
	select {
	case <-held.Done():
	case <-ctx.Done():
		return fmt.Errorf("not told that the lock is lost: %w", ctx.Err())
	}
	if !errors.Is(held.Err(), holdfast.ErrLeaseLost) {
		return unexpected(held.Err(), "C should be told that its lock is lost")
	}
	s.say("C", "is told before anybody else can have it: %v", held.Err())
	taken, err := next.Lease()
	if err != nil {
		return err
	}
	at := <-granted
	if at.Before(held.ExpiresAt()) {
		return fmt.Errorf("the lock came to B %v before the lease of C ended", held.ExpiresAt().Sub(at))
	}
	s.say("B", "has it %v after the cut, when Redis let it expire", short(at.Sub(cut)))
	return taken.Release(ctx)
}

// deleted: the key is deleted. The next renewal notices, and the context of A's work ends.
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
		return fmt.Errorf("knowing that the lock is lost took %v, more than a lease", took)
	}
	s.say("A", "is told %v later, its context is cancelled: %v", short(took), held.Err())
	if err := held.Release(ctx); !errors.Is(err, holdfast.ErrLeaseLost) {
		return unexpected(err, "A's release should say that the lock was lost")
	}
	s.say("A", "a late Release says the same")
	return nil
}
