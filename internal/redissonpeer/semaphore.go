package redissonpeer

import (
	"context"
	_ "embed"
	"strconv"
)

//go:embed semaphore.lua
var semaphoreScript string

// Semaphore is Redisson's RSemaphore: a number of permits that nobody owns. Its requests are no idempotent ones, and a waiter
// that loses its message waits for the next one.
type Semaphore struct {
	peer *Peer
	name string
}

// Semaphore is the semaphore of that name.
func (p *Peer) Semaphore(name string) *Semaphore { return &Semaphore{peer: p, name: name} }

func (s *Semaphore) eval(ctx context.Context, operation string, permits int) (int64, error) {
	n, err := s.peer.evalInt(ctx, semaphoreScript, []string{s.name, SemaphoreChannel(s.name)}, operation, permits, publish)
	if err != nil || n == nil {
		return 0, err
	}
	return *n, nil
}

// TryAcquire takes permits if there are so many.
func (s *Semaphore) TryAcquire(ctx context.Context, permits int) (bool, error) {
	n, err := s.eval(ctx, "try acquire", permits)
	return n == 1, err
}

// Acquire waits for permits until ctx ends: it subscribes to the channel, tries again, and then waits for a
// message before each further try, however long that takes.
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

// semaphoreWakes: a message wakes as many waiters as the permits that it tells of. A negative number makes
// Redisson's listener throw.
func semaphoreWakes(ch *channel, payload string) (permits int64, ok bool) {
	n, err := strconv.ParseInt(payload, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	ch.peer.mu.Lock()
	defer ch.peer.mu.Unlock()
	return min(int64(ch.users), n), true
}

// Release adds permits and tells how many there are. Of none it does not ask the server.
func (s *Semaphore) Release(ctx context.Context, permits int) error {
	if permits == 0 {
		return nil
	}
	_, err := s.eval(ctx, "release", permits)
	return err
}

// TrySetPermits sets the number of permits if there is none.
func (s *Semaphore) TrySetPermits(ctx context.Context, permits int) (bool, error) {
	n, err := s.eval(ctx, "try set", permits)
	return n == 1, err
}

// AddPermits changes the number of permits and tells it, also when it is negative.
func (s *Semaphore) AddPermits(ctx context.Context, permits int) error {
	_, err := s.eval(ctx, "add", permits)
	return err
}

// DrainPermits takes all permits.
func (s *Semaphore) DrainPermits(ctx context.Context) (int64, error) {
	return s.eval(ctx, "drain", 0)
}

// AvailablePermits is the number of permits.
func (s *Semaphore) AvailablePermits(ctx context.Context) (int64, error) {
	return s.eval(ctx, "available", 0)
}

// Delete removes the semaphore and tells nobody.
func (s *Semaphore) Delete(ctx context.Context) (bool, error) {
	n, err := s.peer.client.Del(ctx, s.name).Result()
	return n == 1, err
}
