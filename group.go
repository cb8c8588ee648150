package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/lease"
)

// group is the lease of a multi lock. It consists of the leases of all members that were acquired. When fewer than quorum members are left, the
// group's lease ends and the remaining members are released, so a group's lease that has ended holds nothing.
type group struct {
	name    string
	members []*Lease
	quorum  int
	left    atomic.Int32 // number of members that have not ended

	lease.Ending
}

func newGroup(name string, members []*Lease, quorum int) *group {
	g := &group{name: name, members: members, quorum: quorum}
	g.left.Store(int32(len(members)))
	for _, member := range members {
		member.hold.OnEnd(func(err error) { g.memberEnded(member, err) })
	}
	return g
}

// memberEnded is called when a member's lease ends, no matter whether it was lost, or released by the user or by the group itself.
func (g *group) memberEnded(member *Lease, err error) {
	left := int(g.left.Add(-1))
	if left >= g.quorum || g.Err() != nil {
		return
	}
	if !g.End(err, fmt.Sprintf("%d of %d members are left, the last to end was %q", left, len(g.members), member.name)) {
		return // another member's end has already ended the group
	}
	for _, member := range g.members {
		member.engine.ReleaseAsync(member.hold)
	}
}

// Engine and Notice implement actors.Leak. Engine returns the engine of a member that has not ended, or nil once the lease has ended.
func (g *group) Engine() *actors.Engine {
	for _, member := range g.members {
		if g.Err() == nil && member.Err() == nil {
			return member.engine
		}
	}
	return nil
}

// Notice reports that the lease was dropped without a release, and releases the members, unless their leases are fixed. But as long as the user has a
// channel or a context that reports the lease's end, Notice does nothing and returns false.
func (g *group) Notice(e *actors.Engine) (done bool) {
	awaited := g.Awaited()
	for _, member := range g.members {
		awaited = member.hold.Awaited() || awaited
	}
	if awaited && g.Err() == nil {
		return false
	}
	fixed := g.members[0].hold.Fixed()
	if g.Err() != nil || !fixed && !g.End(ErrNotHeld, "it was dropped without a release") {
		return true
	}
	e.Leaked(g.name, g.kind(), g.id(), g.since())
	for _, member := range g.members {
		if !fixed {
			member.engine.ReleaseAsync(member.hold)
		}
	}
	return true
}

// kind returns the members' kind, or "" if they differ.
func (g *group) kind() Kind {
	kind := g.members[0].hold.Address().Kind.Name
	for _, member := range g.members {
		if member.hold.Address().Kind.Name != kind {
			return ""
		}
	}
	return kind
}

// since returns the time at which the last member was acquired.
func (g *group) since() (last time.Time) {
	for _, member := range g.members {
		if since := member.engine.Time(member.hold.Since); since.After(last) {
			last = since
		}
	}
	return last
}

func (g *group) release(ctx context.Context) error {
	if !g.End(ErrNotHeld, "it was released before") {
		if errors.Is(g.Err(), ErrClosed) {
			return nil
		}
		return fmt.Errorf("holdfast: release %s: %w", lease.Quoted(g.name), g.Reason())
	}
	return g.each(ctx, (*Lease).startRelease)
}

func (g *group) extend(ctx context.Context, d time.Duration) error {
	err := lease.Check("lease", d)
	if err == nil {
		err = g.Reason()
	}
	if err != nil {
		return fmt.Errorf("holdfast: extend %s: %w", lease.Quoted(g.name), err)
	}
	err = g.each(ctx, func(member *Lease) func(ctx context.Context) error { return member.startExtend(d) })
	if lost := g.Reason(); err != nil && lost != nil { // the loss released the remaining members, so their errors do not name the loss
		return fmt.Errorf("holdfast: extend %s: %w", lease.Quoted(g.name), lost)
	}
	return err
}

// each runs a call for every member. It succeeds if a quorum of the calls succeeds.
func (g *group) each(ctx context.Context, start func(member *Lease) func(ctx context.Context) error) error {
	calls := together{n: len(g.members), enough: g.quorum}
	errs := calls.run(ctx, func(i int) func(ctx context.Context) error { return start(g.members[i]) })
	if succeeded(errs) >= g.quorum {
		return nil
	}
	return actors.Join(errs...)
}

func (g *group) valid() bool {
	valid := 0
	for _, member := range g.members {
		if member.Valid() {
			valid++
		}
	}
	return valid >= g.quorum && g.Err() == nil
}

// expiresAt returns the deadline after which fewer than a quorum of members are valid.
func (g *group) expiresAt() time.Time {
	if g.Err() != nil {
		return time.Time{}
	}
	deadlines := make([]time.Time, len(g.members))
	for i, member := range g.members {
		deadlines[i] = member.ExpiresAt()
	}
	slices.SortFunc(deadlines, func(a, b time.Time) int { return b.Compare(a) })
	return deadlines[g.quorum-1]
}

func (g *group) id() string {
	ids := make([]string, len(g.members))
	for i, member := range g.members {
		ids[i] = member.ID()
	}
	return strings.Join(ids, ",")
}

// together runs n calls at the same time.
type together struct {
	n        int
	enough   int // once this many calls have succeeded, the others get the same time again, plus leeway, and are then cancelled; 0: no limit
	hopeless int // once this many calls have failed, the others are cancelled; 0: no limit
}

// leeway is the shortest time that the remaining calls get once enough have succeeded.
const leeway = 2 * time.Millisecond

// run calls start(i) for each i in order, and runs the calls that start returns at the same time. When one of the limits in t is reached, run cancels
// the context of the calls. Once all calls have returned, run returns their errors. The function start must not block, but the calls that it returns
// may.
func (t together) run(ctx context.Context, start func(i int) (call func(ctx context.Context) error)) []error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, t.n)
	began := time.Now()
	for i := range t.n {
		call := start(i)
		go func() { answers <- answer{i, call(ctx)} }()
	}
	errs := make([]error, t.n)
	var over <-chan time.Time
	for good, bad := 0, 0; good+bad < t.n; {
		select {
		case a := <-answers:
			if errs[a.i] = a.err; a.err == nil {
				good++
			} else if bad++; bad == t.hopeless {
				cancel()
			}
			if t.enough > 0 && good == t.enough && over == nil {
				over = time.After(leeway + time.Since(began))
			}
		case <-over:
			cancel()
		}
	}
	return errs
}

func succeeded(errs []error) (count int) {
	for _, err := range errs {
		if err == nil {
			count++
		}
	}
	return count
}
