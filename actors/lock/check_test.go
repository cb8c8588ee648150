package lock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// stepChecker watches a State or a Group from outside, step by step, and reports whatever must never happen. Transcripts and the random
// model tests use it.
type stepChecker struct {
	state wait.Machine

	open    map[*wait.Request]bool // requests without an answer
	came    map[*wait.Request]time.Duration
	flying  map[*lockCall]bool    // calls in flight
	kept    map[*lease.Grant]bool // grants that the watchdog has
	ended   map[*lease.Hold]bool  // leases whose end was reported
	watched map[string]bool       // channels that are subscribed to
	alarmAt time.Duration
	ends    bool                     // the runtime is shutting down or closing
	inside  map[protocol.Owner]bool  // owners that held the lock before the step
	orphans map[string]bool          // grants that were orphans after the last step
	lost    map[string]time.Duration // by grant: the last instant at which an acquire without a known outcome may be executed
}

func newStepChecker(s wait.Machine) *stepChecker {
	return &stepChecker{
		state: s, open: map[*wait.Request]bool{}, came: map[*wait.Request]time.Duration{}, flying: map[*lockCall]bool{}, kept: map[*lease.Grant]bool{}, ended: map[*lease.Hold]bool{},
		watched: map[string]bool{}, lost: map[string]time.Duration{}, alarmAt: clock.Never,
	}
}

// step takes one step and checks it. If the step panics, the request that it handled counts as answered.
func (c *stepChecker) step(now time.Duration, message any) (effects []wait.Effect, panicked any, err error) {
	c.before(now, message)
	effects, panicked = machinetest.Survive(c.state, now, message)
	if r, ok := message.(*wait.Request); ok && panicked != nil {
		delete(c.open, r)
	}
	return effects, panicked, c.after(now, effects, panicked != nil)
}

func (c *stepChecker) before(now time.Duration, message any) {
	c.inside = map[protocol.Owner]bool{}
	c.eachMember(func(s *State) {
		for _, h := range s.holds {
			c.inside[h.Owner] = true
		}
	})
	switch m := message.(type) {
	case wait.Close:
		c.ends = true
	case *wait.Request:
		c.open[m], c.came[m] = true, now
	case *callDone:
		delete(c.flying, m.call)
		if m.class == scripts.Unknown {
			c.lost[m.call.terms.Grant] = max(c.lost[m.call.terms.Grant], m.call.Deadline)
		}
	case wait.Alarm:
		c.alarmAt = clock.Never
	}
}

// eachMember calls f for each State that may hold the lock.
func (c *stepChecker) eachMember(f func(s *State)) {
	switch s := c.state.(type) {
	case *State:
		f(s)
	case *Group:
		s.each(f)
	}
}

// checkCopies checks how long a new orphan waits for late copies of its acquire. It may wait only if such copies can exist: a call with its id is in
// flight, or the outcome of such a call is unknown. Without copies, the actor would send useless releases, and would keep Close waiting.
func (c *stepChecker) checkCopies(now time.Duration) (err error) {
	until := map[string]time.Duration{}
	for call := range c.flying {
		until[call.terms.Grant] = max(until[call.terms.Grant], call.Deadline)
	}
	orphans := map[string]bool{}
	c.eachMember(func(s *State) {
		for _, g := range s.orphans.all {
			if orphans[g.id] = true; !c.orphans[g.id] && g.duplicateUntil > max(now, c.lost[g.id], until[g.id]) {
				err = fmt.Errorf("%s is released until %v, for copies that cannot exist", g.id, g.duplicateUntil)
			}
		}
	})
	c.orphans = orphans
	return err
}

// after checks the effects of a step, and the state after it.
func (c *stepChecker) after(now time.Duration, effects []wait.Effect, panicked bool) error {
	for i := range effects {
		if err := c.effect(now, &effects[i], panicked); err != nil {
			return err
		}
	}
	if err := c.checkCopies(now); err != nil {
		return err
	}
	if h, ok := c.state.(*Group); ok {
		return c.checkGroup(now, h, panicked)
	}
	s := c.state.(*State)
	member := &memberCheck{
		s: s, flying: c.flying, kept: c.kept, watched: len(c.watched) > 0, alarmAt: c.alarmAt,
	}
	places := map[*wait.Request]int{}
	member.places(places)
	return errors.Join(member.check(now), member.checkAlarm(now), c.checkOpen(places))
}

func (c *stepChecker) effect(now time.Duration, e *wait.Effect, panicked bool) error {
	switch e.Do {
	case wait.DoCall:
		c.flying[e.Call.(*lockCall)] = true
		if err := machinetest.CheckTiming(now, &e.Call.(*lockCall).Timing); err != nil {
			return err
		}
	case wait.DoAnswer:
		if r := e.Request; r.Do == wait.Release && r.Hold != nil && !lost(r.Hold) { // the release of a lost lease does not end it again
			if err := c.end(r.Hold); err != nil {
				return err
			}
		}
		return c.answer(now, e.Request, panicked)
	case wait.DoLost:
		return c.end(e.Hold)
	case wait.DoKeep:
		c.kept[e.Grant] = true
	case wait.DoDrop:
		delete(c.kept, e.Grant)
	case wait.DoWatch, wait.DoUnwatch:
		if c.watched[e.Channel] == (e.Do == wait.DoWatch) {
			return fmt.Errorf("watch or unwatch twice")
		}
		if c.watched[e.Channel] = true; e.Do == wait.DoUnwatch {
			delete(c.watched, e.Channel)
		}
	case wait.DoAlarm:
		if c.alarmAt = e.At; e.At <= now {
			return fmt.Errorf("the alarm at %v is due already: the actor would spin", e.At)
		}
	}
	return nil
}

// end checks that the end of a lease is reported only once.
func (c *stepChecker) end(h *lease.Hold) error {
	if c.ended[h] {
		return fmt.Errorf("the end of lease %d is reported twice", h.Serial)
	}
	c.ended[h] = true
	return nil
}

func (c *stepChecker) answer(now time.Duration, r *wait.Request, panicked bool) error {
	if !c.open[r] {
		return fmt.Errorf("an answer to a request that is not open (answered twice?): %v", r.Do)
	}
	delete(c.open, r)
	waited := now - c.came[r]
	delete(c.came, r)
	if r.Do == wait.Acquire && !r.Try && errors.Is(r.Err, rpc.ErrNoAnswer) && !errors.Is(r.Err, protocol.ErrNotAcquired) && waited < c.patience() {
		return fmt.Errorf("refused after %v because Redis does not answer, but patience lasts %v", waited, c.patience())
	}
	if r.Do != wait.Acquire || r.Err != nil || panicked && lost(r.Hold) {
		return nil //nolint:nilerr // refused, or granted and lost by the panic
	}
	s := stateOf(r.Hold.Grant)
	switch {
	case c.ends && (r.Owner.IsZero() || !c.inside[r.Owner]):
		return fmt.Errorf("a new holder is granted the lock while the runtime ends")
	case s.phase != held || !s.grant.is(r.Hold.Grant) || !slices.Contains(s.holds, r.Hold):
		return fmt.Errorf("a lease on a grant that is not held")
	case !r.Hold.Valid(now):
		return fmt.Errorf("a lease that is over when it is granted")
	}
	return nil
}

func (c *stepChecker) patience() time.Duration {
	if h, ok := c.state.(*Group); ok {
		return h.Policy.Patience
	}
	return c.state.(*State).Policy.Patience
}

// checkOpen checks that each unanswered request is in exactly one of the lists whose requests get an answer. The parameter `places` counts, for each
// request, the lists that contain it.
func (c *stepChecker) checkOpen(places map[*wait.Request]int) error {
	for r, n := range places {
		if n != 1 || !c.open[r] {
			return fmt.Errorf("%v waits in %d places, open: %v", r.Do, n, c.open[r])
		}
	}
	for r := range c.open {
		if places[r] == 0 {
			return fmt.Errorf("%v is forgotten: nothing will answer it", r.Do)
		}
	}
	return nil
}

// lost reports whether a hold has ended for any reason except a release by its holder.
func lost(h *lease.Hold) bool { return h.Err() != nil && !errors.Is(h.Err(), protocol.ErrNotHeld) }
