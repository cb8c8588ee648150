package actors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

// stepChecker watches one lockState from outside, step by step, and says what must never be. Transcripts and the random model
// test both use it.
type stepChecker struct {
	state *lockState

	open    map[*Request]bool  // asked, not answered
	flying  map[*lockCall]bool // sent, not answered
	kept    map[*Grant]bool    // the watchdog looks after them
	guarded map[string]bool    // actors that are watched
	alarmAt time.Duration
	watched bool
	stopped bool
}

func newStepChecker(s *lockState) *stepChecker {
	return &stepChecker{
		state: s, open: map[*Request]bool{}, flying: map[*lockCall]bool{}, kept: map[*Grant]bool{}, guarded: map[string]bool{},
		alarmAt: never,
	}
}

// step takes one step and checks it. When the step panics, it does what lockActor does; the request at hand is answered then.
func (c *stepChecker) step(now time.Duration, message any) (effects []effect, panicked any, err error) {
	c.before(message)
	effects, panicked = c.survive(now, message)
	return effects, panicked, c.after(now, effects, panicked != nil)
}

func (c *stepChecker) survive(now time.Duration, message any) (effects []effect, panicked any) {
	defer func() {
		if panicked = recover(); panicked == nil {
			return
		}
		if r, ok := message.(*Request); ok {
			c.state.queue.remove(r)
			r.err = fmt.Errorf("the lock's actor panicked: %v", panicked)
			delete(c.open, r)
		}
		effects = c.state.distrust(now)
	}()
	return c.state.step(now, message), nil
}

func (c *stepChecker) before(message any) {
	switch m := message.(type) {
	case *Request:
		c.open[m] = true
	case *callDone:
		delete(c.flying, m.call)
	case alarm:
		c.alarmAt = never
	case requesterGone:
		delete(c.guarded, m.pid.String())
		maps.DeleteFunc(c.open, func(r *Request, _ bool) bool {
			return r.do == opAcquire && r.requester != nil && r.requester.Equal(m.pid)
		})
	}
}

// after checks the effects of a step, and what it left.
func (c *stepChecker) after(now time.Duration, effects []effect, panicked bool) error {
	for i := range effects {
		if err := c.effect(now, &effects[i], panicked); err != nil {
			return err
		}
	}
	return errors.Join(
		c.checkHolds(now), c.checkPhase(), c.checkQueue(), c.checkOpen(), c.checkProgress(now), c.checkTwins(), c.checkClients(),
	)
}

func (c *stepChecker) effect(now time.Duration, e *effect, panicked bool) error {
	switch e.do {
	case doCall:
		c.flying[e.call] = true
		if e.call.deadline < now {
			return fmt.Errorf("a call whose deadline %v has passed", e.call.deadline)
		}
	case doAnswer:
		return c.answer(now, e.request, panicked)
	case doKeep:
		c.kept[e.grant] = true
	case doDrop:
		delete(c.kept, e.grant)
	case doWatch, doUnwatch:
		if c.watched == (e.do == doWatch) {
			return fmt.Errorf("watch or unwatch twice")
		}
		c.watched = e.do == doWatch
	case doGuard:
		c.guarded[e.pid.String()] = true
	case doUnguard:
		delete(c.guarded, e.pid.String())
	case doAlarm:
		c.alarmAt = e.at
	case doStop:
		c.stopped = true
		if !c.state.idle() {
			return fmt.Errorf("stop while not idle")
		}
	case doStay:
		if c.state.idle() {
			return fmt.Errorf("stay while idle")
		}
	}
	return nil
}

func (c *stepChecker) answer(now time.Duration, r *Request, panicked bool) error {
	if !c.open[r] {
		return fmt.Errorf("an answer to a request that is not open (answered twice?): %v", r.do)
	}
	delete(c.open, r)
	if r.do != opAcquire || r.err != nil || panicked && r.hold.state.Load() == holdLost {
		return nil //nolint:nilerr // or it was given, and lost by the panic
	}
	s := c.state
	switch {
	case s.phase != held || r.hold.grant != s.grant || !slices.Contains(s.holds, r.hold):
		return fmt.Errorf("a lease on a grant that is not held")
	case !r.hold.Valid(now):
		return fmt.Errorf("a lease that is over when it is given")
	}
	return nil
}

// checkHolds: one local owner at most, and all its leases are on the grant.
func (c *stepChecker) checkHolds(now time.Duration) error {
	s := c.state
	if (s.phase == held) != (len(s.holds) > 0) {
		return fmt.Errorf("phase %d with %d holds", s.phase, len(s.holds))
	}
	for _, h := range s.holds {
		switch {
		case h.grant != s.grant:
			return fmt.Errorf("a hold on a former grant")
		case h.owner != s.holds[0].owner, h.owner.IsZero() && len(s.holds) > 1:
			return fmt.Errorf("two owners hold")
		}
	}
	if s.phase == held && s.grant.left(now) <= 0 {
		return fmt.Errorf("held after the deadline")
	}
	return nil
}

// checkPhase: the phase, the grant, the trial and the watchdog agree.
func (c *stepChecker) checkPhase() error {
	s := c.state
	hasGrant := s.phase == held || s.phase == passing || s.phase == releasing
	hasTrial := s.phase == acquiring || s.phase == passing
	switch {
	case hasGrant != (s.grant != nil):
		return fmt.Errorf("phase %d and grant %v", s.phase, s.grant)
	case hasTrial != (s.trial.id != ""):
		return fmt.Errorf("phase %d and trial %+v", s.phase, s.trial)
	case s.phase == held && (!c.kept[s.grant] || len(c.kept) != 1), s.phase != held && len(c.kept) > 0:
		return fmt.Errorf("phase %d and %d grants with the watchdog", s.phase, len(c.kept))
	case s.phase != releasing && len(s.releasers) > 0:
		return fmt.Errorf("phase %d with releasers", s.phase)
	case s.retiring:
		return fmt.Errorf("a retire hand-shake without an answer")
	}
	return nil
}

func (c *stepChecker) checkQueue() error {
	q := &c.state.queue
	owners, n := map[protocol.Owner]int{}, 0
	var prev *Request
	for r := q.head; r != nil; prev, r = r, r.next {
		n++
		switch {
		case r.queue != q || r.prev != prev:
			return fmt.Errorf("broken queue link at position %d", n)
		case r.try && prev != nil:
			return fmt.Errorf("a try waits behind others")
		}
		if !r.owner.IsZero() {
			owners[r.owner]++
		}
	}
	if q.tail != prev || q.len != n || !maps.Equal(q.owners, owners) {
		return fmt.Errorf("queue of %d says %d, owners %v say %v", n, q.len, owners, q.owners)
	}
	return nil
}

// checkOpen: every request that was not answered is somewhere where it will be.
func (c *stepChecker) checkOpen() error {
	s := c.state
	places := map[*Request]int{}
	for r := s.queue.head; r != nil; r = r.next {
		places[r]++
	}
	for _, r := range s.releasers {
		places[r]++
	}
	for _, side := range s.sides {
		places[side.request]++
	}
	for _, r := range s.extension.waiting {
		places[r]++
	}
	for r, n := range places {
		if n != 1 || !c.open[r] {
			return fmt.Errorf("%v waits in %d places, open: %v", r.do, n, c.open[r])
		}
	}
	for r := range c.open {
		if places[r] == 0 {
			return fmt.Errorf("%v is forgotten: nothing will answer it", r.do)
		}
	}
	return nil
}

// checkProgress: whatever has to go on has a call on its way or an alarm, and no alarm spins.
func (c *stepChecker) checkProgress(now time.Duration) error {
	s := c.state
	moving := func(inFlight bool) bool { return inFlight || c.alarmAt != never }
	main, extends := 0, 0
	ghosts, sides := map[string]bool{}, map[*lockCall]bool{}
	for call := range c.flying {
		switch call.do {
		case callAcquire, callPass, callRelease:
			if call.seq == s.inflight {
				main++
			}
		case callGhost:
			ghosts[call.grant] = true
		case callExtend:
			if call == s.extension.call {
				extends++
			}
		default:
			sides[call] = true
		}
	}
	switch {
	case (s.inflight != 0) != (main == 1):
		return fmt.Errorf("in flight: %d, calls: %d", s.inflight, main)
	case s.phase != held && (s.phase != free || s.queue.len > 0) && !moving(main == 1):
		return fmt.Errorf("stuck in phase %d", s.phase)
	case len(s.extension.waiting) > 0 && !moving(extends == 1):
		return fmt.Errorf("stuck extension")
	case (s.extension.call != nil) != (extends == 1):
		return fmt.Errorf("an extension waits for a call that is not on its way")
	case s.watch != unwatched && s.queue.len == 0 && !moving(false):
		return fmt.Errorf("the channel is never let go")
	}
	for _, g := range s.ghosts {
		if g.inflight && !ghosts[g.id] || !moving(g.inflight) {
			return fmt.Errorf("stuck ghost %s", g.id)
		}
	}
	for _, side := range s.sides {
		if !sides[side] {
			return fmt.Errorf("a side call that is not on its way")
		}
	}
	if c.alarmAt <= now {
		return fmt.Errorf("the alarm at %v is due already: it would spin", c.alarmAt)
	}
	if c.alarmAt != never && s.idle() {
		return fmt.Errorf("idle with an alarm")
	}
	return nil
}

// checkTwins: what the shell was told is what the state believes.
func (c *stepChecker) checkTwins() error {
	s := c.state
	ids := map[string]bool{}
	for _, g := range s.ghosts {
		if ids[g.id] || s.grant != nil && s.grant.id == g.id || s.trial.id == g.id {
			return fmt.Errorf("ghost %s twice, or of the living", g.id)
		}
		ids[g.id] = true
	}
	switch {
	case s.alarmAt != c.alarmAt:
		return fmt.Errorf("alarm at %v, believed at %v", c.alarmAt, s.alarmAt)
	case (s.watch != unwatched) != c.watched:
		return fmt.Errorf("watched: %v, believed %v", c.watched, s.watch)
	}
	return nil
}

func (c *stepChecker) checkClients() error {
	s := c.state
	if len(c.guarded) != len(s.clients) {
		return fmt.Errorf("%d actors watched, %d known", len(c.guarded), len(s.clients))
	}
	for name, client := range s.clients {
		leases := 0
		for _, h := range s.holds {
			if h.requester != nil && h.requester.String() == name {
				leases++
			}
		}
		if !c.guarded[name] || client.count != leases+len(client.waiting) {
			return fmt.Errorf("client %s counts %d: %d leases, %d waits", name, client.count, leases, len(client.waiting))
		}
	}
	return nil
}
