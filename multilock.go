package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// MultiLock acquires several locks as one: all of them (Multi) or a majority (Red). Acquiring returns one Lease for all members. That
// lease ends as a whole. Safe for concurrent use.
type MultiLock struct {
	members []*Lock // in order of acquisition
	given   []*Lock // in the order in which the caller gave them
	name    string
	quorum  int                                                  // number of members that make a lease
	take    func(ctx context.Context, p *plan) ([]*Lease, error) // one Lease per member, or nil if the locks were not acquired
	bad     error
}

// Multi returns a lock that is held when all of the given locks are held. It corresponds to Redisson's getMultiLock. The locks may be of different
// kinds, runtimes and servers, and may also be used on their own.
//
// A multi lock acquires its members in order of name, and members of the same name in the order given. So multi locks do not deadlock with each
// other, unless they were given locks of the same name in different orders. Deadlocks are also possible with a caller that already holds a member,
// and with a Redisson multi lock that uses another order. Time limits end all these deadlocks. The first wait may last as long as the caller
// allows, because nothing is held during this wait. Each later wait lasts at most 2 s. If a later wait fails, all members are released. After a
// random pause, the next attempt begins by waiting for the member that was not available.
//
// The lease is lost when any member is lost. Done, Err and Context then report the end, and the other members are released at once.
// Closing one of the runtimes ends the lease with ErrClosed.
//
// Acquiring fails with ErrInvalid if there are no locks, if a lock is nil, or if two locks of the same runtime have the same key.
// Multi cannot detect other locks that exclude each other, such as locks of one name in two runtimes on one Redis. Acquiring such
// locks fails when ctx ends.
func Multi(locks ...*Lock) *MultiLock {
	m := newMultiLock(locks)
	m.quorum, m.take = len(m.members), m.takeAll
	if m.bad == nil {
		slices.SortStableFunc(m.members, func(a, b *Lock) int { return cmp.Compare(a.Name(), b.Name()) })
	}
	return m
}

func newMultiLock(locks []*Lock) *MultiLock {
	m := &MultiLock{members: slices.Clone(locks), given: slices.Clone(locks)}
	if len(locks) == 0 {
		m.bad = fmt.Errorf("%w: no locks", ErrInvalid)
	}
	var names []string
	for i, l := range locks {
		switch {
		case l == nil:
			m.bad = fmt.Errorf("%w: lock %d is nil", ErrInvalid, i+1)
			continue
		case slices.ContainsFunc(locks[:i], l.sameKey):
			m.bad = fmt.Errorf("%w: %q is there twice", ErrInvalid, l.Name())
		case !slices.Contains(names, l.Name()):
			names = append(names, l.Name())
		}
	}
	m.name = strings.Join(names, ",")
	return m
}

// sameKey reports whether both locks belong to the same runtime and use the same key in Redis. Locks of two runtimes may also share a key, but
// that cannot be detected.
func (l *Lock) sameKey(other *Lock) bool {
	return other != nil && l.rt == other.rt && l.address.Raw == other.address.Raw
}

// Acquire waits for the locks until ctx ends. If ctx ends first, the error matches ErrNotAcquired and ctx's error. The other errors are those of
// Lock.Acquire, and name the members for which they occurred. If a single member fails with such an error, the acquire of a Multi lock fails. The
// acquire of a Red lock fails only if the remaining members are not a majority. Before Acquire returns an error, it spends up to 500 ms on
// releasing the members that it has acquired. After that, the runtimes continue to release these members in the background.
//
// WithWait limits the whole acquire. The options about the lease apply to every member. If it took long to acquire all members, the fixed leases
// (WithLease) that were acquired first have lost part of their time; Multi extends these leases to their full length. An Owner is valid only in the
// runtime that made it: if a member belongs to another runtime, an acquire with WithOwner or ContextWithOwner fails with ErrInvalid. Nested calls
// of Do re-enter without an explicit Owner.
func (m *MultiLock) Acquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return m.acquire(ctx, opts, false)
}

// TryAcquire makes one attempt on each member: Multi tries one after the other until one fails, Red tries all at once. On failure
// the error matches ErrNotAcquired, and errors.As finds a *BusyError that names a holder.
func (m *MultiLock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return m.acquire(ctx, opts, true)
}

// Do acquires the locks, calls fn, and releases the locks, as Lock.Do does. fn's context carries an owner for each member, so a
// nested Do on a member, or on a multi lock of members, re-enters.
func (m *MultiLock) Do(ctx context.Context, fn func(ctx context.Context) error, opts ...AcquireOption) error {
	return m.do(ctx, fn, opts, false)
}

// TryDo is like Do, but makes only one attempt on each member, as TryAcquire does. If the attempt fails, fn is not called and the error matches
// ErrNotAcquired.
func (m *MultiLock) TryDo(ctx context.Context, fn func(ctx context.Context) error, opts ...AcquireOption) error {
	return m.do(ctx, fn, opts, true)
}

func (m *MultiLock) do(ctx context.Context, fn func(ctx context.Context) error, opts []AcquireOption, try bool) error {
	p, err := m.plan(ctx, opts, try)
	if err != nil {
		return err
	}
	if fn == nil {
		return fmt.Errorf("holdfast: acquire %s: %w: the function is nil", lease.Quoted(m.name), ErrInvalid)
	}
	inner := ctx
	for i, member := range m.members {
		if p.specs[i].Owner.IsZero() {
			p.specs[i].Owner = member.rt.NewOwner()
		}
		inner = contextForLock(inner, p.specs[i].Owner, member)
	}
	lease, err := m.carryOut(ctx, p)
	if err != nil {
		return err
	}
	return lease.during(ctx, inner, fn)
}

func (m *MultiLock) acquire(ctx context.Context, opts []AcquireOption, try bool) (*Lease, error) {
	p, err := m.plan(ctx, opts, try)
	if err != nil {
		return nil, err
	}
	lease, err := m.carryOut(ctx, p)
	if err != nil {
		return nil, err
	}
	lease.guard.Store(actors.GuardWhole(lease.group))
	return lease, nil
}

// plan is one acquire of a multi lock.
type plan struct {
	specs   []wait.AcquireSpec // one per member
	try     bool
	fixed   time.Duration // WithLease, or 0 if the watchdogs renew the leases
	atLeast time.Duration // WithAtLeast, counted from when all members are acquired; 0 without it
	end     time.Time     // when the time of WithWait is over; zero without it
}

// plan makes the plan of one acquire. It checks the locks and the options, so that an invalid acquire fails before a request is sent.
func (m *MultiLock) plan(ctx context.Context, opts []AcquireOption, try bool) (*plan, error) {
	if m.bad != nil {
		return nil, fmt.Errorf("holdfast: acquire %s: %w", lease.Quoted(m.name), m.bad)
	}
	p := &plan{specs: make([]wait.AcquireSpec, len(m.members)), try: try}
	for i, member := range m.members {
		var err error
		if p.specs[i], err = member.spec(ctx, opts, try); err != nil {
			return nil, err
		}
		// The at-least time begins in keep, when all members are acquired. If a member is released before that, it is free at once.
		p.atLeast, p.specs[i].AtLeast = p.specs[i].AtLeast, 0
	}
	p.fixed = p.specs[0].Lease
	if wait := p.specs[0].Wait; wait > 0 {
		p.end = time.Now().Add(wait)
	}
	return p, nil
}

func (m *MultiLock) carryOut(ctx context.Context, p *plan) (*Lease, error) {
	taken, err := m.take(ctx, p)
	if err != nil {
		return nil, err
	}
	var leases []*Lease
	for _, lock := range m.given {
		if lease := taken[slices.Index(m.members, lock)]; lease != nil {
			leases = append(leases, lease)
		}
	}
	return &Lease{name: m.name, group: newGroup(m.name, leases, m.quorum)}, nil
}

// takeAll acquires every member. Each round begins with the member that was unavailable in the previous round.
func (m *MultiLock) takeAll(ctx context.Context, p *plan) ([]*Lease, error) {
	var seen *BusyError
	for first, round := 0, 0; ; round++ {
		leases, busy, err := m.takeInOrder(ctx, p, first, patience(m.jitter, round, cmp.Or(p.fixed, p.specs[0].AtMost)))
		if err == nil {
			return p.keep(ctx, m, leases)
		}
		knows := errors.As(err, &seen)
		if p.try || !errors.Is(err, ErrNotAcquired) || !p.pause(ctx, m.jitter, round) {
			if !knows && seen != nil {
				err = fmt.Errorf("%w; before that: %w", err, seen) // the last round may have been too short to learn the holder
			}
			return nil, withEnd(ctx, err)
		}
		first = busy
	}
}

// takeInOrder makes one round. First, while it holds nothing, it waits for members[first] for as long as the caller allows. Then it tries the
// members before members[first] without waiting. Last, it waits for each member after members[first], for at most the duration `patience`. So a
// caller that holds members waits only for members later in the order. On failure it keeps nothing, and returns the member that was unavailable.
func (m *MultiLock) takeInOrder(ctx context.Context, p *plan, first int, patience time.Duration) (leases []*Lease, busy int, err error) {
	taken := make([]*Lease, len(m.members))
	defer func() {
		if leases == nil { // also after a panic
			giveBack(taken)
		}
	}()
	for _, i := range startingWith(first, len(m.members)) {
		spec := p.specs[i]
		switch {
		case i == first:
			spec.Wait = p.left()
		case i < first:
			spec.Try, spec.Wait = true, 0
		case !p.try:
			spec.Wait = p.atMost(patience)
		}
		taken[i], err = m.members[i].take(ctx, spec)
		m.members[i].rt.engine.Between(ctx)
		if err != nil {
			return nil, i, err
		}
	}
	p.evenOut(ctx, taken)
	for i, one := range taken {
		if !one.Valid() {
			return nil, i, fmt.Errorf("holdfast: acquire %s: %w: %q ended before the others were acquired: %w",
				lease.Quoted(m.name), ErrNotAcquired, one.Name(), cmp.Or(one.Err(), ErrLeaseLost))
		}
	}
	return taken, 0, nil
}

// startingWith returns the numbers below n in order, with the number `first` moved to the front.
func startingWith(first, n int) []int {
	order := []int{first}
	for i := range n {
		if i != first {
			order = append(order, i)
		}
	}
	return order
}

const (
	patienceMin = 200 * time.Millisecond // longest wait for a later member in the first round
	patienceMax = 2 * time.Second        // longest such wait in any round
	pauseMin    = time.Millisecond       // longest pause after the first round
	pauseMax    = 100 * time.Millisecond // longest pause after any round
)

// jitter returns a random duration below its argument.
type jitter func(time.Duration) time.Duration

func (m *MultiLock) jitter(d time.Duration) time.Duration { return m.members[0].rt.engine.Jitter(d) }

// doubled returns d, doubled once for each round so far, but no more than the duration `most`.
func doubled(d time.Duration, round int, most time.Duration) time.Duration {
	return min(d<<min(round, 10), most)
}

// patience returns how long a caller that already holds members waits for a later member. The wait grows from round to round: short waits end a
// deadlock soon, long waits outlast a long queue. The wait is random, so that two callers do not keep giving up at the same time. The argument
// `most` is the time given to WithLease or WithAtMost, or 0 if neither is used. If `most` is not 0, the wait is at most a third of it. So most of
// the lease is left for the caller.
func patience(jitter jitter, round int, most time.Duration) time.Duration {
	longest := doubled(patienceMin, round, patienceMax)
	if most > 0 {
		longest = min(longest, most/3)
	}
	return longest/2 + jitter(longest/2)
}

// pause waits before the next round. It returns false when the caller's time is up.
func (p *plan) pause(ctx context.Context, jitter jitter, round int) bool {
	timer := time.NewTimer(p.atMost(jitter(doubled(pauseMin, round, pauseMax))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return !p.over(ctx)
	case <-ctx.Done():
		return false
	}
}

// over reports whether the caller's time is up.
func (p *plan) over(ctx context.Context) bool {
	return ctx.Err() != nil || !p.end.IsZero() && !time.Now().Before(p.end)
}

// left returns the remainder of WithWait, at least 1 ns; 0 without WithWait.
func (p *plan) left() time.Duration {
	if p.end.IsZero() {
		return 0
	}
	return max(time.Until(p.end), 1)
}

// atMost returns d, or the remainder of WithWait if that is less.
func (p *plan) atMost(d time.Duration) time.Duration {
	if left := p.left(); left > 0 {
		return min(d, left)
	}
	return d
}

// evenOut extends fixed leases to their full length if they were acquired well before the last member. A lease that cannot be extended ends at its
// old deadline.
func (p *plan) evenOut(ctx context.Context, leases []*Lease) {
	waited := slices.DeleteFunc(slices.Clone(leases), func(l *Lease) bool {
		return !l.hold.Fixed() || time.Until(l.ExpiresAt()) > p.fixed-p.fixed/8
	})
	if p.fixed == 0 || len(waited) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.fixed/4)
	defer cancel()
	together{n: len(waited)}.run(ctx, func(i int) func(ctx context.Context) error { return waited[i].startExtend(p.fixed) })
}

// keep begins the at-least time of all acquired members. If that fails for too many members, keep releases all of them. Even
// then, the members whose at-least time has begun stay taken in Redis until that time has passed.
func (p *plan) keep(ctx context.Context, m *MultiLock, leases []*Lease) ([]*Lease, error) {
	held := slices.DeleteFunc(slices.Clone(leases), func(l *Lease) bool { return l == nil })
	if p.atLeast == 0 {
		return leases, nil
	}
	errs := together{n: len(held), enough: m.quorum}.run(ctx, func(i int) func(ctx context.Context) error {
		return held[i].engine.StartAtLeast(held[i].hold, p.atLeast)
	})
	if succeeded(errs) < m.quorum {
		giveBack(leases)
		return nil, withEnd(ctx, fmt.Errorf("holdfast: acquire %s: %w: %w", lease.Quoted(m.name), ErrNotAcquired, actors.Join(errs...)))
	}
	return leases, nil
}

// giveBack releases the leases that are not nil, and waits a short time for the results. It does not use the caller's context,
// which may have ended.
func giveBack(leases []*Lease) {
	held := slices.DeleteFunc(slices.Clone(leases), func(l *Lease) bool { return l == nil })
	together{n: len(held)}.run(ended, func(i int) func(ctx context.Context) error { return held[i].startRelease() })
}

// ended is a context that has already ended. With this context, a release waits for Redis for at most 500 ms: see Lease.Release.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// withEnd adds ctx's error to err if ctx has ended.
func withEnd(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
