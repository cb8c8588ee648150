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
)

// MultiLock takes several locks as one: all of them (Multi), or a majority (Red). It holds nothing itself: what is held is a
// Lease, which has those of the members and ends as a whole. Safe for concurrent use.
type MultiLock struct {
	members []*Lock // in order of acquisition
	given   []*Lock // as they were given
	name    string
	quorum  int                                                  // so many members make a lease
	take    func(ctx context.Context, p *plan) ([]*Lease, error) // by member; nil: not acquired
	bad     error
}

// Multi is a lock that is held when all of these are: Redisson's getMultiLock. They may be of any kinds, runtimes and servers, and
// may be used alone, too.
//
// All multi locks take their members in one order, by name, then by position here, so they never wait for each other in a
// circle. What others may cause (a caller that holds a member already, a Redisson multi lock in another order) ends by time:
// only the first wait is as long as the caller's, while nothing is held. Every later one is bounded by 2 s; after it everything
// is given back, and after a random pause the next attempt begins by waiting for the member that was in the way.
//
// The lease is lost when any member is lost. All of it ends then: Done, Err and Context tell, and the other members are given
// back at once. The end of one runtime ends it, too, with ErrClosed.
//
// No locks, a nil one, and one lock twice (the same name in the same runtime) are ErrInvalid. Locks that exclude each other
// otherwise, as one name through two runtimes of one Redis, cannot be seen: acquiring them ends with ctx.
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

// sameKey reports whether both are one key in Redis, as far as that can be seen.
func (l *Lock) sameKey(other *Lock) bool {
	return other != nil && l.rt == other.rt && l.address.Raw == other.address.Raw
}

// Acquire waits for the locks until ctx ends; then the error matches ErrNotAcquired and ctx's error. Other errors are those of
// Lock.Acquire for the member that they name; of a red lock they are returned when no majority can be had any more. Before it
// returns an error, what was acquired is given back, for 500 ms at most: what no server confirmed by then the runtimes go on with.
//
// WithWait bounds all of it. WithLease is the lease of every member; Multi sets it anew on those that had to wait for later ones.
// An Owner means something to its runtime only: WithOwner and ContextWithOwner are ErrInvalid when a member belongs to another.
// Do lets its function enter again without.
func (m *MultiLock) Acquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return m.acquire(ctx, opts, false)
}

// TryAcquire makes one attempt on each member: Multi on one after the other until one fails, Red on all at once. When that fails
// the error matches ErrNotAcquired, and errors.As to a *BusyError tells who was in the way.
func (m *MultiLock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Lease, error) {
	return m.acquire(ctx, opts, true)
}

// Do acquires the locks, calls fn, and releases them, as Lock.Do does. fn's context carries the owner of every member for that
// member only, so that a nested Do on any of them, or on a multi lock of them, re-enters.
func (m *MultiLock) Do(ctx context.Context, fn func(ctx context.Context) error, opts ...AcquireOption) error {
	p, err := m.plan(ctx, opts, false)
	if err != nil {
		return err
	}
	if fn == nil {
		return fmt.Errorf("holdfast: acquire %s: %w: the function is nil", actors.Quoted(m.name), ErrInvalid)
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
	specs []actors.AcquireSpec // what is asked of each member
	try   bool
	fixed time.Duration // WithLease; 0: renewed by the watchdogs
	end   time.Time     // of WithWait; zero: none
}

// plan checks everything that can be wrong with an acquire before anything is sent.
func (m *MultiLock) plan(ctx context.Context, opts []AcquireOption, try bool) (*plan, error) {
	if m.bad != nil {
		return nil, fmt.Errorf("holdfast: acquire %s: %w", actors.Quoted(m.name), m.bad)
	}
	p := &plan{specs: make([]actors.AcquireSpec, len(m.members)), try: try}
	for i, member := range m.members {
		var err error
		if p.specs[i], err = member.spec(ctx, opts, try); err != nil {
			return nil, err
		}
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

// takeAll takes every member. Each round begins with the member that was in the way in the one before.
func (m *MultiLock) takeAll(ctx context.Context, p *plan) ([]*Lease, error) {
	var seen *BusyError
	for first, round := 0, 0; ; round++ {
		leases, busy, err := m.takeInOrder(ctx, p, first, patience(m.jitter, round, p.fixed))
		if err == nil {
			return leases, nil
		}
		knows := errors.As(err, &seen)
		if p.try || !errors.Is(err, ErrNotAcquired) || !p.pause(ctx, m.jitter, round) {
			if !knows && seen != nil {
				err = fmt.Errorf("%w; before that: %w", err, seen) // the last round may have been too short to learn anything
			}
			return nil, withEnd(ctx, err)
		}
		first = busy
	}
}

// takeInOrder makes one round. It waits for the first member as long as the caller does, with nothing held; then it tries those
// before it, without waiting; then it waits for those after it, with patience. So who holds members waits only for members that
// come later in the order than all of these. Without a lease of every member it keeps none, and says which was in the way.
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
	for i, lease := range taken {
		if !lease.Valid() {
			return nil, i, fmt.Errorf("holdfast: acquire %s: %w: %q ended before the others were acquired: %w",
				actors.Quoted(m.name), ErrNotAcquired, lease.Name(), cmp.Or(lease.Err(), ErrLeaseLost))
		}
	}
	return taken, 0, nil
}

// startingWith are the numbers below n in order, but for one that comes first.
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
	patienceMax = 2 * time.Second        // and in any
	pauseMin    = time.Millisecond       // longest pause after the first round
	pauseMax    = 100 * time.Millisecond // and after any
)

// jitter is a random time below its argument.
type jitter func(time.Duration) time.Duration

func (m *MultiLock) jitter(d time.Duration) time.Duration { return m.members[0].rt.engine.Jitter(d) }

// doubled is a time that doubles from round to round up to a bound.
func doubled(d time.Duration, round int, most time.Duration) time.Duration {
	return min(d<<min(round, 10), most)
}

// patience is how long to wait for a later member while others are held. It grows from round to round, so that a circle is left
// soon and a long queue is outlasted in the end; it differs, so that two who meet do not give up together again and again; and
// it leaves most of a fixed lease to the caller.
func patience(jitter jitter, round int, fixed time.Duration) time.Duration {
	longest := doubled(patienceMin, round, patienceMax)
	if fixed > 0 {
		longest = min(longest, fixed/3)
	}
	return longest/2 + jitter(longest/2)
}

// pause waits before the next round; false when there is none, because the caller waits no longer.
func (p *plan) pause(ctx context.Context, jitter jitter, round int) bool {
	timer := time.NewTimer(p.atMost(jitter(doubled(pauseMin, round, pauseMax))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil && (p.end.IsZero() || time.Now().Before(p.end))
	case <-ctx.Done():
		return false
	}
}

// left is what is left of WithWait, at least a moment; 0 without it.
func (p *plan) left() time.Duration {
	if p.end.IsZero() {
		return 0
	}
	return max(time.Until(p.end), 1)
}

// atMost is d, or what is left of WithWait if that is less.
func (p *plan) atMost(d time.Duration) time.Duration {
	if left := p.left(); left > 0 {
		return min(d, left)
	}
	return d
}

// evenOut gives the fixed leases of members that waited for later ones their full length. Where that fails they keep what is left.
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

// giveBack releases the leases that there are and waits a short time for that. It must not depend on a caller's context.
func giveBack(leases []*Lease) {
	held := slices.DeleteFunc(slices.Clone(leases), func(l *Lease) bool { return l == nil })
	together{n: len(held)}.run(ended, func(i int) func(ctx context.Context) error { return held[i].startRelease() })
}

// ended is a context with which a release has only a short time of its own.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// withEnd adds to an error that ctx has ended.
func withEnd(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
