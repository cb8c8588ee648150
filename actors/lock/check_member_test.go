package lock

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// memberCheck checks one State, which is alone or in a Group. Its other fields say what the stepChecker knows about that State.
type memberCheck struct {
	s       *State
	flying  map[*lockCall]bool
	kept    map[*lease.Grant]bool
	watched bool
	alarmAt time.Duration
}

func (c *memberCheck) check(now time.Duration) error {
	return errors.Join(
		c.checkHolds(now), c.checkPhase(), checkQueue(&c.s.Queue), c.checkProgress(), c.checkTwins(), c.checkOrphans(),
	)
}

// checkHolds checks that all local leases are on the present grant, and that they have one owner unless the holders of a process share the grant.
func (c *memberCheck) checkHolds(now time.Duration) error {
	s := c.s
	if (s.phase == held) != (len(s.holds) > 0) && (s.phase != held || !s.lingering) {
		return fmt.Errorf("phase %d with %d holds", s.phase, len(s.holds))
	}
	for _, h := range s.holds {
		switch {
		case !s.grant.is(h.Grant):
			return fmt.Errorf("a hold on a former grant")
		case s.Address.Kind.Grants != scripts.GrantPerProcess && (h.Owner != s.holds[0].Owner || h.Owner.IsZero() && len(s.holds) > 1):
			return fmt.Errorf("two owners hold")
		}
	}
	switch {
	case s.phase == held && s.grant.Left(now) <= 0:
		return fmt.Errorf("held after the deadline")
	case s.claimed < 0:
		return fmt.Errorf("a release came for a lease that its holder had not ended")
	}
	return nil
}

// checkPhase checks that the phase, the grant, the pending grant and the watchdog agree.
func (c *memberCheck) checkPhase() error {
	s := c.s
	hasGrant := s.phase == held || s.phase == passing || s.phase == releasing
	hasTrial := s.phase == acquiring || s.phase == passing
	switch {
	case hasGrant != (s.grant != nil):
		return fmt.Errorf("phase %d and grant %v", s.phase, s.grant)
	case hasTrial != (s.pending.id != "") && (s.phase != free || !s.pending.standing):
		return fmt.Errorf("phase %d and trial %+v", s.phase, s.pending)
	case s.phase == held && (!c.kept[&s.grant.Grant] || len(c.kept) != 1), s.phase != held && len(c.kept) > 0:
		return fmt.Errorf("phase %d and %d grants with the watchdog", s.phase, len(c.kept))
	case s.phase != releasing && s.phase != passing && len(s.releasers) > 0:
		return fmt.Errorf("phase %d with releasers", s.phase)
	}
	return nil
}

func checkQueue(q *wait.Queue) error {
	owners, n := map[protocol.Owner]int{}, 0
	var prev *wait.Request
	for r := q.Front(); r != nil; prev, r = r, r.Next {
		n++
		switch {
		case r.Queue != q:
			return fmt.Errorf("the request at position %d belongs to another queue", n)
		case r.Try && prev != nil && !prev.Try:
			return fmt.Errorf("a try waits behind others")
		}
		if !r.Owner.IsZero() {
			owners[r.Owner]++
		}
	}
	if q.Len != n || !maps.Equal(q.Owners, owners) {
		return fmt.Errorf("queue of %d says %d, owners %v say %v", n, q.Len, owners, q.Owners)
	}
	return nil
}

// places adds 1 to a request's count for each list of this state that contains the request. The state answers all requests in these lists.
func (c *memberCheck) places(places map[*wait.Request]int) {
	s := c.s
	for r := s.Queue.Front(); r != nil; r = r.Next {
		places[r]++
	}
	for _, r := range s.releasers {
		places[r]++
	}
	for _, r := range extensionOf(s).waiting {
		places[r]++
	}
}

// asks reports whether a state has a question in flight (look.go).
func asks(s *State) bool { return s.looking != nil && s.looking.call != nil }

// extensionOf returns the extension of a state, or an empty one if the state has none.
func extensionOf(s *State) extension {
	if s.extension == nil {
		return extension{}
	}
	return *s.extension
}

// checkProgress checks that everything unfinished has a call in flight or an alarm.
func (c *memberCheck) checkProgress() error {
	s := c.s
	moving := func(inFlight bool) bool { return inFlight || c.alarmAt != clock.Never }
	main, extends, looks := 0, 0, 0
	ghosts := map[string]bool{}
	for call := range c.flying {
		switch call.do {
		case callAcquire, callPass, callRelease:
			if call == s.inflight {
				main++
			}
		case callOrphan:
			ghosts[call.terms.Grant] = true
		case callExtend:
			if call == extensionOf(s).call {
				extends++
			}
		case callLook:
			if asks(s) && call == s.looking.call {
				looks++
			}
		}
	}
	switch {
	case (s.inflight != nil) != (main == 1):
		return fmt.Errorf("in flight: %p, calls: %d", s.inflight, main)
	case s.phase != held && (s.phase != free || s.Queue.Len > 0) && !moving(main == 1):
		return fmt.Errorf("stuck in phase %d", s.phase)
	case len(extensionOf(s).waiting) > 0 && !moving(extends == 1):
		return fmt.Errorf("stuck extension")
	case (extensionOf(s).call != nil) != (extends == 1):
		return fmt.Errorf("an extension waits for a call that is not in flight")
	case asks(s) != (looks == 1):
		return fmt.Errorf("the state waits for a look that is not in flight")
	case s.subscription.Watch != wait.Unwatched && s.Queue.Len == 0 && !moving(false):
		return fmt.Errorf("the channel is never unsubscribed")
	}
	for _, g := range s.orphans.all {
		if g.inflight && !ghosts[g.id] || !moving(g.inflight) {
			return fmt.Errorf("stuck orphan %s", g.id)
		}
	}
	return nil
}

func (c *memberCheck) checkAlarm(now time.Duration) error {
	if c.alarmAt <= now {
		return fmt.Errorf("the alarm at %v is due already: the actor would spin", c.alarmAt)
	}
	if c.alarmAt != clock.Never && c.s.Idle() {
		return fmt.Errorf("idle with an alarm")
	}
	return nil
}

// checkTwins checks that the state and the shell agree about the alarm and the subscription, and that no orphan has the id of another grant.
func (c *memberCheck) checkTwins() error {
	s := c.s
	ids := map[string]bool{}
	for _, g := range s.orphans.all {
		if ids[g.id] || s.grant != nil && s.grant.ID == g.id || s.pending.id == g.id {
			return fmt.Errorf("%s is an orphan twice, or an orphan and a grant in use", g.id)
		}
		ids[g.id] = true
	}
	switch {
	case s.AlarmAt != c.alarmAt:
		return fmt.Errorf("alarm at %v, believed at %v", c.alarmAt, s.AlarmAt)
	case (s.subscription.Watch != wait.Unwatched) != c.watched:
		return fmt.Errorf("watched: %v, believed %v", c.watched, s.subscription.Watch)
	case c.watched && s.phase == free && s.pending.standing && !s.standby && s.failures.Count == 0 && s.subscription.Channel != s.Address.Kind.Channel(s.Address.Raw, s.pending.id):
		return fmt.Errorf("%s waits for messages to an earlier grant: %s", s.pending.id, s.subscription.Channel)
	}
	return nil
}

// checkOrphans checks that no two orphans have the same id. The result of a release goes to the first orphan with that id, so a second one could stay
// for ever.
func (c *memberCheck) checkOrphans() error {
	seen := map[string]bool{}
	for _, g := range c.s.orphans.all {
		if seen[g.id] {
			return fmt.Errorf("%s is an orphan twice", g.id)
		}
		seen[g.id] = true
	}
	return nil
}
