package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/scripts"
)

// Red is a lock that is held when a majority of these are: Redlock, as the Redis documentation on distributed locks defines it, and
// Redisson's getRedLock. Each should be of a runtime on a Redis of its own, none of which replicates another; then the lock
// outlives the failure of a minority.
//
// A round tries all members at once, each for a short time. It has succeeded when a majority was acquired and the validity time is
// positive: the lease, less the time since the round began, less the drift (1 % of the lease and 2 ms). Otherwise everything is
// given back, also where no answer came, and after a random pause Acquire makes another round.
//
// The lease is lost when the majority is lost: the members are renewed by their runtimes, each by itself, and one that is lost is
// not acquired again. The rest is given back at once then.
//
// Exclusion needs servers that keep what they have granted: with appendfsync always, or started again no sooner than the longest
// lease after a crash. A server that comes back empty can help another to a majority. Locks as Multi refuses them are ErrInvalid.
func Red(locks ...*Lock) *MultiLock {
	m := newMultiLock(locks)
	m.quorum, m.take = len(m.members)/2+1, m.takeMajority
	return m
}

// tryTime is how long a red lock tries a member: short against the lease, so that validity is left, and long enough for a server
// that is busy.
func tryTime(lease time.Duration) time.Duration {
	return min(lease/4, max(lease/20, 200*time.Millisecond), 500*time.Millisecond)
}

// validity is how long a lease that was asked for that long ago excludes others.
func validity(lease, elapsed time.Duration) time.Duration {
	return lease - elapsed - (lease/100 + 2*time.Millisecond)
}

// takeMajority makes rounds until one succeeds, or none can.
func (m *MultiLock) takeMajority(ctx context.Context, p *plan) ([]*Lease, error) {
	for round := 0; ; round++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("holdfast: acquire %s: %w: %w", actors.Quoted(m.name), ErrNotAcquired, err)
		}
		leases, err := m.tryAll(ctx, p)
		if err == nil {
			return leases, nil
		}
		if p.try || !errors.Is(err, ErrNotAcquired) || !p.pause(ctx, m.jitter, round) {
			return nil, withEnd(ctx, err)
		}
	}
}

// tryAll makes one round. Without a majority that is valid it keeps nothing.
func (m *MultiLock) tryAll(ctx context.Context, p *plan) (leases []*Lease, err error) {
	n, lease := len(m.members), m.shortest(p)
	taken, all := make([]*Lease, n), m.members
	defer func() {
		if leases == nil {
			giveBack(taken)
		}
	}()
	began := all[0].rt.engine.Now() // a clock that knows of suspensions
	tries, cancel := context.WithTimeout(ctx, tryTime(lease))
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
	if took := all[0].rt.engine.Now() - began; len(valid) < m.quorum || validity(lease, took) <= 0 {
		return nil, fmt.Errorf("holdfast: acquire %s: %w: no validity is left after %v", actors.Quoted(m.name), ErrNotAcquired, took)
	}
	return taken, nil
}

// try asks for a member of a red lock, in bounded time.
func (l *Lock) try(ctx context.Context, p *plan, i int) (*Lease, error) {
	spec := p.specs[i]
	spec.Try, spec.Wait = true, p.left()
	lease, err := l.take(ctx, spec)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return lease, fmt.Errorf("holdfast: acquire %q: %w: no answer in time", l.Name(), ErrNotAcquired)
	}
	return lease, err
}

// shortest is the shortest lease that the members are asked for.
func (m *MultiLock) shortest(p *plan) time.Duration {
	shortest := p.fixed
	for _, member := range m.members {
		if lease := member.rt.engine.Lease(); p.fixed == 0 && (shortest == 0 || lease < shortest) {
			shortest = lease
		}
	}
	return shortest
}

// refusal is the error of a round without a majority. It matches ErrNotAcquired unless so many members refuse for good that no
// round can succeed.
func (m *MultiLock) refusal(errs []error) error {
	if hopeless := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return !lasting(err) }); len(hopeless) > len(errs)-m.quorum {
		return fmt.Errorf("holdfast: acquire %s: %w", actors.Quoted(m.name), actors.Join(hopeless...))
	}
	return fmt.Errorf("holdfast: acquire %s: %w: %d of %d members acquired, %d needed: %w",
		actors.Quoted(m.name), ErrNotAcquired, succeeded(errs), len(errs), m.quorum, actors.Join(errs...))
}

// lasting reports whether a member's refusal would be the same in another round.
func lasting(err error) bool {
	for _, sentinel := range []error{ErrClosed, ErrForeignKey, ErrUpgrade, ErrInvalid, redis.ErrClosed} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	var server redis.Error
	return errors.As(err, &server) && scripts.Classify(server) == scripts.Rejected
}
