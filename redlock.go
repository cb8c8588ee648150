package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/scripts"
)

// Red returns a lock that is held when a majority of the given locks are held. It is Redlock, as defined by the Redis documentation on
// distributed locks, and Redisson's getRedLock. Each lock should belong to a runtime on its own Redis server, and none of these servers should
// replicate another. Then the lock survives the failure of a minority.
//
// Each round tries all members at once, each for a short time. A round succeeds if a majority was acquired and the validity time is
// positive. The validity time is the lease, less the time since the round began, less the drift (1 % of the lease plus 2 ms). If
// a round fails, all members are released, even those that did not answer. Acquire then pauses for a random time and starts another round.
//
// The lease is lost when the majority is lost; the remaining members are then released at once. Each member is renewed by its own
// runtime, and a lost member is not acquired again.
//
// A server that crashes may restart without its data, while a lease that it granted before the crash is still valid. Such a server can give a
// second holder a majority. To prevent that, each server must either run with appendfsync always, or stay down after a crash for at least
// as long as the longest lease.
//
// Acquiring fails with ErrInvalid in the same cases as for Multi: no locks, a nil lock, or two locks of the same runtime with the same key.
func Red(locks ...*Lock) *MultiLock {
	m := newMultiLock(locks)
	m.quorum, m.take = len(m.members)/2+1, m.takeMajority
	return m
}

// tryTime returns the time limit for the attempts of a round to acquire the members. The limit is short compared with the lease, so that most of
// the lease is left after the round. It is long enough for a busy server to answer.
func tryTime(lease time.Duration) time.Duration {
	return min(lease/4, max(lease/20, 200*time.Millisecond), 500*time.Millisecond)
}

// validity returns how much longer a lease excludes others. The parameter elapsed is the time since the lease was requested.
func validity(lease, elapsed time.Duration) time.Duration {
	return lease - elapsed - (lease/100 + 2*time.Millisecond)
}

// takeMajority makes rounds until a round succeeds, no round can succeed any more, or the caller's time is up. TryAcquire and TryDo make only one
// round. If the caller's time ends during a round, the members may not have answered yet, so the error of that round may not say why the lock is
// not free. In this case takeMajority returns the error of the previous round, if there was one.
func (m *MultiLock) takeMajority(ctx context.Context, p *plan) ([]*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("holdfast: acquire %s: %w: %w", lease.Quoted(m.name), ErrNotAcquired, err)
	}
	var before error
	for round := 0; ; round++ {
		leases, err := m.tryAll(ctx, p)
		switch {
		case err == nil:
			return p.keep(ctx, m, leases)
		case p.try || !errors.Is(err, ErrNotAcquired):
			return nil, withEnd(ctx, err)
		case before != nil && p.over(ctx):
			return nil, withEnd(ctx, before)
		case !p.pause(ctx, m.jitter, round):
			return nil, withEnd(ctx, err)
		}
		before = err
	}
}

// tryAll makes one round. Without a valid majority it keeps nothing.
func (m *MultiLock) tryAll(ctx context.Context, p *plan) (leases []*Lease, err error) {
	n, length := len(m.members), m.shortest(p)
	taken, all := make([]*Lease, n), m.members
	defer func() {
		if leases == nil {
			giveBack(taken)
		}
	}()
	began := all[0].rt.engine.Now() // this clock also counts the time for which the machine is suspended
	tries, cancel := context.WithTimeout(ctx, tryTime(length))
	defer cancel()
	calls := together{n: n, enough: m.quorum, hopeless: n - m.quorum + 1}
	errs := calls.run(tries, func(i int) func(ctx context.Context) error {
		return func(ctx context.Context) (err error) {
			taken[i], err = all[i].try(ctx, p, i)
			return err
		}
	})
	if succeeded(errs) < m.quorum {
		return nil, m.refusal(errs)
	}
	valid := slices.DeleteFunc(slices.Clone(taken), func(l *Lease) bool { return l == nil || !l.Valid() })
	if took := all[0].rt.engine.Now() - began; len(valid) < m.quorum || validity(length, took) <= 0 {
		return nil, fmt.Errorf("holdfast: acquire %s: %w: no validity is left after %v", lease.Quoted(m.name), ErrNotAcquired, took)
	}
	return taken, nil
}

// try makes one attempt at a member of a red lock, in limited time.
func (l *Lock) try(ctx context.Context, p *plan, i int) (*Lease, error) {
	spec := p.specs[i]
	spec.Try, spec.Wait = true, p.left()
	lease, err := l.take(ctx, spec)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return lease, fmt.Errorf("holdfast: acquire %q: %w: no answer in time", l.Name(), ErrNotAcquired)
	}
	return lease, err
}

// shortest returns the shortest of the members' leases.
func (m *MultiLock) shortest(p *plan) time.Duration {
	shortest := lease.Max
	for i, member := range m.members {
		shortest = min(shortest, p.specs[i].First(member.rt.engine.Lease()))
	}
	return shortest
}

// refusal returns the error of a round without a majority. It matches ErrNotAcquired, unless so many members refuse permanently
// that no round can succeed.
func (m *MultiLock) refusal(errs []error) error {
	if hopeless := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return !lasting(err) }); len(hopeless) > len(errs)-m.quorum {
		return fmt.Errorf("holdfast: acquire %s: %w", lease.Quoted(m.name), actors.Join(hopeless...))
	}
	return fmt.Errorf("holdfast: acquire %s: %w: %d of %d members acquired, %d needed: %w",
		lease.Quoted(m.name), ErrNotAcquired, succeeded(errs), len(errs), m.quorum, actors.Join(errs...))
}

// lasting reports whether err is a permanent refusal: the member that returned it would return it in every later round, too.
func lasting(err error) bool {
	for _, sentinel := range []error{ErrClosed, ErrForeignKey, ErrUpgrade, ErrInvalid, redis.ErrClosed} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	var server redis.Error
	return errors.As(err, &server) && scripts.Classify(server) == scripts.Rejected
}
