package redissonpeer

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

//go:embed permits.lua
var permitsScript string

// neverExpires is the score of a permit without a lease.
const neverExpires = 922337203685477

// PermitSemaphore is Redisson's RPermitExpirableSemaphore. Each of its permits has an id and a lease. The end of the lease is an instant of the
// client's clock, and the lease is not renewed.
type PermitSemaphore struct {
	peer *Peer
	name string
}

// PermitSemaphore returns the semaphore with this name.
func (p *Peer) PermitSemaphore(name string) *PermitSemaphore {
	return &PermitSemaphore{peer: p, name: name}
}

func (s *PermitSemaphore) eval(ctx context.Context, operation string, number int64, ids ...string) (any, error) {
	args := []any{operation, s.peer.now(), publish, number}
	for _, id := range ids {
		raw, err := hex.DecodeString(id)
		if err != nil {
			return nil, fmt.Errorf("redissonpeer: permit %q: %w", id, err)
		}
		args = append(args, raw)
	}
	keys := []string{s.name, PermitsKey(s.name), SemaphoreChannel(s.name)}
	return s.peer.eval(ctx, permitsScript, keys, args...)
}

func (s *PermitSemaphore) evalInt(ctx context.Context, operation string, number int64, ids ...string) (int64, error) {
	reply, err := s.eval(ctx, operation, number, ids...)
	n, _ := reply.(int64)
	return n, err
}

// TryAcquire takes n permits and returns their ids, or nil if fewer than n are free. A lease of 0 never ends.
func (s *PermitSemaphore) TryAcquire(ctx context.Context, n int, lease time.Duration) ([]string, error) {
	ids, _, err := s.try(ctx, n, lease)
	return ids, err
}

// try does what TryAcquire does. It also returns how long the caller may wait before the next try, which is negative if there is no limit.
func (s *PermitSemaphore) try(ctx context.Context, n int, lease time.Duration) (ids []string, wait time.Duration, err error) {
	for range n {
		var id [16]byte
		_, _ = rand.Read(id[:]) // it never fails
		ids = append(ids, hex.EncodeToString(id[:]))
	}
	expires := int64(neverExpires)
	if lease > 0 {
		expires = s.peer.now() + milliseconds(lease)
	}
	reply, err := s.eval(ctx, "try acquire", expires, ids...)
	text, _ := reply.(string)
	switch {
	case err != nil:
		return nil, 0, err
	case text == "OK":
		return ids, 0, nil
	case strings.HasPrefix(text, ":"):
		at, err := strconv.ParseInt(text[1:], 10, 64)
		return nil, max(0, time.Duration(at-s.peer.now())*time.Millisecond), err
	}
	return nil, -1, nil
}

// Acquire waits for n permits until ctx ends.
func (s *PermitSemaphore) Acquire(ctx context.Context, n int, lease time.Duration) ([]string, error) {
	ids, _, err := s.try(ctx, n, lease)
	if ids != nil || err != nil {
		return ids, err
	}
	ch, err := s.peer.joinTold(ctx, SemaphoreChannel(s.name), semaphoreWakes)
	if err != nil {
		return nil, err
	}
	defer s.peer.leave(ch)
	for {
		ids, wait, err := s.try(ctx, n, lease)
		if ids != nil || err != nil {
			return ids, err
		}
		if err := ch.await(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// TryRelease releases one permit. It returns false if the permit was not held, or had expired.
func (s *PermitSemaphore) TryRelease(ctx context.Context, id string) (bool, error) {
	n, err := s.evalInt(ctx, "release one", 0, id)
	return n == 1, err
}

// TryReleaseAll releases all of the permits or none of them, and returns how many it has released.
func (s *PermitSemaphore) TryReleaseAll(ctx context.Context, ids ...string) (int64, error) {
	return s.evalInt(ctx, "release", 0, ids...)
}

// Available returns how many permits are free, Acquired how many are held, and Permits how many there are.
func (s *PermitSemaphore) Available(ctx context.Context) (int64, error) {
	return s.evalInt(ctx, "available", 0)
}

// Acquired: see Available.
func (s *PermitSemaphore) Acquired(ctx context.Context) (int64, error) {
	return s.evalInt(ctx, "acquired", 0)
}

// Permits: see Available.
func (s *PermitSemaphore) Permits(ctx context.Context) (int64, error) {
	return s.evalInt(ctx, "all", 0)
}

// TrySetPermits sets the number of permits, unless it is already set.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	set, err := s.evalInt(ctx, "try set", int64(n))
	return set == 1, err
}

// SetPermits sets the total number of permits, including those that are held.
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	_, err := s.eval(ctx, "set", int64(n))
	return err
}

// AddPermits changes the number of free permits.
func (s *PermitSemaphore) AddPermits(ctx context.Context, n int) error {
	_, err := s.eval(ctx, "add", int64(n))
	return err
}

// Delete removes the semaphore, without a message.
func (s *PermitSemaphore) Delete(ctx context.Context) (bool, error) {
	n, err := s.peer.client.Del(ctx, s.name, PermitsKey(s.name)).Result()
	return n > 0, err
}
