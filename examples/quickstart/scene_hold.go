package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
)

// scenes lists the scenes in the order in which they are shown.
var scenes = []scene{
	{"two runtimes want one lock", "orders", contend},
	{"a watchdog renews a lock that is held for longer than its lease", "report", keepAlive},
	{"a release wakes the waiter", "baton", handOver},
	{"an owner acquires its lock again", "account", reenter},
	{"a holder crashes, and its lock becomes free", "job", crash},
	{"the key of a held lock is deleted", "invoice", deleted},
}

// contend: while A holds the lock, B is refused. Then many goroutines of both runtimes hold the lock, one at a time.
func contend(ctx context.Context, s *stage, name string) error {
	held, err := s.a.Lock(name).Acquire(ctx)
	if err != nil {
		return err
	}
	s.say("A", "acquired %q", name)

	var busy *holdfast.BusyError
	_, err = s.b.Lock(name).TryAcquire(ctx)
	if !errors.As(err, &busy) || busy.Holder != held.ID() {
		return unexpected(err, "B should be refused because A holds the lock")
	}
	s.say("B", "tried once and was refused: held by %s", busy.Holder)

	const wait = 150 * time.Millisecond
	_, err = s.b.Lock(name).Acquire(ctx, holdfast.WithWait(wait))
	if !errors.Is(err, holdfast.ErrNotAcquired) {
		return unexpected(err, "B should give up")
	}
	s.say("B", "waited %v and gave up", wait)

	if err := held.Release(ctx); err != nil {
		return err
	}
	s.say("A", "released")
	return crowd(ctx, s, name)
}

// crowd lets many goroutines add 1 to a counter. Reading and writing it are two steps, so only the lock prevents lost additions.
func crowd(ctx context.Context, s *stage, name string) error {
	const workers = 50 // in each runtime
	var count, inside, together atomic.Int64
	add := func(context.Context) error {
		if inside.Add(1) > 1 {
			together.Add(1)
		}
		n := count.Load()
		runtime.Gosched() // another goroutine may run here: the lock must keep it out
		count.Store(n + 1)
		inside.Add(-1)
		return nil
	}
	var wg sync.WaitGroup
	errs := make(chan error, 2*workers)
	start := time.Now()
	for range workers {
		wg.Go(func() { errs <- s.a.Lock(name).Do(ctx, add) })
		wg.Go(func() { errs <- s.b.Lock(name).Do(ctx, add) })
	}
	wg.Wait()
	took := time.Since(start)
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	if together.Load() > 0 || count.Load() != 2*workers {
		return fmt.Errorf("%d holders were not alone; the counter is %d instead of %d", together.Load(), count.Load(), 2*workers)
	}
	s.say("A+B", "%d goroutines held it in turn within %v, never two at once", 2*workers, short(took))
	return nil
}

// keepAlive: A holds the lock for two and a half leases. Every half lease, B checks in Redis that A still holds it.
func keepAlive(ctx context.Context, s *stage, name string) error {
	const hold, look = 5 * lease / 2, lease / 2
	held, err := s.a.Lock(name).Acquire(ctx)
	if err != nil {
		return err
	}
	s.say("A", "acquired %q, lease %v, and works for %v", name, lease, hold)

	end := time.After(hold)
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	for working := true; working; {
		select {
		case <-ticks.C:
			if err := s.seesHeld(ctx, name, held); err != nil {
				return err
			}
		case <-end:
			working = false
		case <-held.Done():
			return fmt.Errorf("the watchdog did not keep the lock: %w", held.Err())
		}
	}
	if !held.Valid() {
		return errors.New("process A's lease is no longer valid")
	}
	if err := held.Release(ctx); err != nil {
		return err
	}
	if err := s.seesFree(ctx, name); err != nil {
		return err
	}
	s.say("A", "released after %.1f leases; B sees that the lock is free", float64(hold)/float64(lease))
	return nil
}

// seesHeld lets B check in Redis that A holds the lock, and print the lock's TTL.
func (s *stage) seesHeld(ctx context.Context, name string, held *holdfast.Lease) error {
	state, err := s.b.Lock(name).Inspect(ctx)
	if err != nil {
		return err
	}
	if !state.Held || len(state.Holders) != 1 || state.Holders[0].ID != held.ID() {
		return fmt.Errorf("process B should see A as the holder, but sees %+v", state)
	}
	if state.TTL <= 0 || state.TTL > lease {
		return fmt.Errorf("process B should see a TTL of at most %v, but sees %v", lease, state.TTL)
	}
	s.say("B", "sees that A holds the lock, with a TTL of %v", short(state.TTL))
	return nil
}

// seesFree lets B check that the lock is free in Redis.
func (s *stage) seesFree(ctx context.Context, name string) error {
	state, err := s.b.Lock(name).Inspect(ctx)
	if err != nil {
		return err
	}
	if state.Held {
		return fmt.Errorf("process B should see that the lock is free, but sees %+v", state)
	}
	return nil
}

// handOver: the lock alternates between A and B. Each measurement begins before the holder's Release and ends when the waiter has the lock.
func handOver(ctx context.Context, s *stage, name string) error {
	const rounds = 21
	from, to := s.a, s.b
	held, err := from.Lock(name).Acquire(ctx)
	if err != nil {
		return err
	}
	s.say(from.name, "acquired %q", name)
	took := make([]time.Duration, rounds)
	for i := range took {
		if held, took[i], err = s.handTo(ctx, to, held); err != nil {
			return err
		}
		if i == 0 {
			s.say(to.name, "has the lock %v after %s began to release it", short(took[i]), from.name)
		}
		from, to = to, from
	}
	if err := held.Release(ctx); err != nil {
		return err
	}
	slices.Sort(took)
	if median := took[rounds/2]; median > lease/2 {
		return fmt.Errorf("the median hand-over took %v: the waiters were not woken by the releases, but by their timers", median)
	}
	s.say("A+B", "%d hand-overs between A and B: median %v, slowest %v", rounds, short(took[rounds/2]), short(took[rounds-1]))
	return nil
}

// handTo lets a party wait for the lock, releases the lock, and returns the party's lease and how long the hand-over took.
func (s *stage) handTo(ctx context.Context, to *party, held *holdfast.Lease) (*holdfast.Lease, time.Duration, error) {
	pending := to.Lock(held.Name()).AcquireAsync(ctx)
	if err := s.seesWaiting(ctx, to, held.Name()); err != nil {
		return nil, 0, err
	}
	start := time.Now()
	if err := held.Release(ctx); err != nil {
		return nil, 0, err
	}
	next, err := pending.Lease()
	return next, time.Since(start), err
}

// seesWaiting returns when a party's runtime reports a waiter for the lock. It asks every 5 ms. The first question also comes after 5 ms, so that
// the waiter has had time to subscribe to the lock's channel.
func (s *stage) seesWaiting(ctx context.Context, to *party, name string) error {
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return fmt.Errorf("%s should be waiting for %q: %w", to.name, name, ctx.Err())
		}
		state, err := to.Lock(name).Inspect(ctx)
		if err != nil {
			return err
		}
		if state.Waiting > 0 {
			return nil
		}
	}
}

// reenter: one owner acquires the lock twice, and has to release it twice. Other owners are refused.
func reenter(ctx context.Context, s *stage, name string) error {
	lock, owner := s.a.Lock(name), s.a.NewOwner()
	outer, err := lock.Acquire(ctx, holdfast.WithOwner(owner))
	if err != nil {
		return err
	}
	inner, err := lock.Acquire(ctx, holdfast.WithOwner(owner))
	if err != nil {
		return fmt.Errorf("the owner should acquire its lock again, but: %w", err)
	}
	s.say("A", "acquired %q twice under one owner", name)
	if _, err := lock.TryAcquire(ctx); !errors.Is(err, holdfast.ErrNotAcquired) {
		return unexpected(err, "another owner should be refused")
	}
	s.say("A", "another owner in the same runtime was refused")
	if err := inner.Release(ctx); err != nil {
		return err
	}
	s.say("A", "released once")
	if err := s.seesHeld(ctx, name, outer); err != nil {
		return err
	}
	if err := outer.Release(ctx); err != nil {
		return err
	}
	if err := s.seesFree(ctx, name); err != nil {
		return err
	}
	s.say("A", "released again; B sees that the lock is free")
	return nil
}
