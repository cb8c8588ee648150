package redissonpeer

import (
	"context"
	_ "embed"
	"strconv"
)

//go:embed semaphore.lua
var semaphoreScript string

// Semaphore is Redisson's RSemaphore: a number of permits without owners. Requests are not idempotent. A waiter that misses a message waits for the
// next message.
type Semaphore struct {
	peer *Peer
	name string
}

// Semaphore returns the semaphore with this name.
func (p *Peer) Semaphore(name string) *Semaphore { return &Semaphore{peer: p, name: name} }

func (s *Semaphore) eval(ctx context.Context, operation string, permits int) (int64, error) {
	n, err := s.peer.evalInt(ctx, semaphoreScript, []string{s.name, SemaphoreChannel(s.name)}, operation, permits, publish)
	if err != nil || n == nil {
		return 0, err
	}
	return *n, nil
}

// TryAcquire takes the permits if that many are available.
func (s *Semaphore) TryAcquire(ctx context.Context, permits int) (bool, error) {
	n, err := s.eval(ctx, "try acquire", permits)
	return n == 1, err
}

// Acquire waits for permits until ctx ends. It subscribes to the channel and tries again. Before each further try it waits
// for a message, without a time limit.
func (s *Semaphore) Acquire(ctx context.Context, permits int) error {
	ok, err := s.TryAcquire(ctx, permits)
	if ok || err != nil {
		return err
	}
	ch, err := s.peer.joinTold(ctx, SemaphoreChannel(s.name), semaphoreWakes)
	if err != nil {
		return err
	}
	defer s.peer.leave(ch)
	for {
		ok, err := s.TryAcquire(ctx, permits)
		if ok || err != nil {
			return err
		}
		if err := ch.await(ctx, -1); err != nil {
			return err
		}
	}
}

// semaphoreWakes returns how many waiters of a semaphore a message wakes. The message contains a number of permits, and wakes one waiter for each
// permit, at most all waiters. If the number is negative or malformed, ok is false: Redisson's listener throws an exception then.
func semaphoreWakes(ch *channel, payload string) (permits int64, ok bool) {
	n, err := strconv.ParseInt(payload, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	ch.peer.mu.Lock()
	defer ch.peer.mu.Unlock()
	return min(int64(ch.users), n), true
}

// Release adds permits and publishes how many are available. Releasing 0 permits sends nothing to the server.
func (s *Semaphore) Release(ctx context.Context, permits int) error {
	if permits == 0 {
		return nil
	}
	_, err := s.eval(ctx, "release", permits)
	return err
}

// TrySetPermits sets the number of permits, unless it is already set.
func (s *Semaphore) TrySetPermits(ctx context.Context, permits int) (bool, error) {
	n, err := s.eval(ctx, "try set", permits)
	return n == 1, err
}

// AddPermits changes the number of permits and publishes the new number, even if it is negative.
func (s *Semaphore) AddPermits(ctx context.Context, permits int) error {
	_, err := s.eval(ctx, "add", permits)
	return err
}

// DrainPermits takes all permits.
func (s *Semaphore) DrainPermits(ctx context.Context) (int64, error) {
	return s.eval(ctx, "drain", 0)
}

// AvailablePermits returns the number of available permits.
func (s *Semaphore) AvailablePermits(ctx context.Context) (int64, error) {
	return s.eval(ctx, "available", 0)
}

// Delete removes the semaphore, without a message.
func (s *Semaphore) Delete(ctx context.Context) (bool, error) {
	n, err := s.peer.client.Del(ctx, s.name).Result()
	return n == 1, err
}
