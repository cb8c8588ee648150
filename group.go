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

// group is what the lease of a multi lock holds: a lease of each member that was acquired. It ends as a whole: when fewer than
// quorum of them are left, the holder is told, and the rest is given back, so that a lease that has ended holds nothing.
type group struct {
	name    string
	members []*Lease
	quorum  int
	left    atomic.Int32 // members that have not ended

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

// memberEnded is called on the lock actor of a member that was lost, and for each member that the group gives back itself.
func (g *group) memberEnded(member *Lease, err error) {
	left := int(g.left.Add(-1))
	if left >= g.quorum || g.Err() != nil {
		return
	}
	if !g.End(err, fmt.Sprintf("%d of %d members are left, the last to end was %q", left, len(g.members), member.name)) {
		return // two at once
	}
	for _, member := range g.members {
		member.engine.ReleaseAsync(member.hold)
	}
}

// Home is the engine of a member that has not ended; nil when the lease has.
func (g *group) Home() *actors.Engine {
	for _, member := range g.members {
		if g.Err() == nil && member.Err() == nil {
			return member.engine
		}
	}
	return nil
}

// Notice reports the leak, and gives the members back unless they are fixed.
func (g *group) Notice(e *actors.Engine) (done bool) {
	awaited := g.Awaited()
	for _, member := range g.members {
		awaited = member.hold.Awaited() || awaited
	}
	if awaited && g.Err() == nil {
		return false
	}
	fixed := g.members[0].hold.Fixed()
	if g.Err() != nil || !fixed && !g.End(ErrNotHeld, "nobody had it any more") {
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

// kind is that of all members; "": they are of several.
func (g *group) kind() Kind {
	kind := g.members[0].hold.Address().Kind.Name
	for _, member := range g.members {
		if member.hold.Address().Kind.Name != kind {
			return ""
		}
	}
	return kind
}

// since is when the last member was acquired.
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
		return fmt.Errorf("holdfast: release %s: %w", actors.Quoted(g.name), g.Reason())
	}
	return g.each(ctx, (*Lease).startRelease)
}

func (g *group) extend(ctx context.Context, d time.Duration) error {
	err := lease.Check(d)
	if err == nil {
		err = g.Reason()
	}
	if err != nil {
		return fmt.Errorf("holdfast: extend %s: %w", actors.Quoted(g.name), err)
	}
	err = g.each(ctx, func(member *Lease) func(ctx context.Context) error { return member.startExtend(d) })
	if lost := g.Reason(); err != nil && lost != nil { // its end has released the members that were left
		return fmt.Errorf("holdfast: extend %s: %w", actors.Quoted(g.name), lost)
	}
	return err
}

// each does something with all members; it has succeeded when it has with a quorum.
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

// expiresAt is the deadline of the member with which fewer than a quorum are left.
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

// together are calls that are made at the same time.
type together struct {
	n        int
	enough   int // when so many have succeeded, the others get as long again, and no longer; 0: they do
	hopeless int // when so many have failed, the others get no more time; 0: they do
}

// leeway is what the others get at least when enough calls have succeeded.
const leeway = 2 * time.Millisecond

// run returns the errors when all calls have returned. Those that are not waited for learn it by the end of their context. start is
// called for one after the other and must not block; what it returns does.
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
