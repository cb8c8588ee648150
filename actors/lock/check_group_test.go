package lock

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// checkGroup checks a group after a step: each member by itself, and the rules about several members.
func (c *stepChecker) checkGroup(now time.Duration, h *Group, panicked bool) error {
	errs := []error{checkQueue(&h.Queue), c.checkAlone(h), c.checkIDs(h), c.checkGroupAlarm(h)}
	places := map[*wait.Request]int{}
	for r := h.Queue.Front(); r != nil; r = r.Next {
		places[r]++
		if h.upgrades(r) {
			errs = append(errs, fmt.Errorf("%v waits for the exclusive lock, while its own owner shares the lock with others", r.Do))
		}
	}
	for _, a := range h.again {
		if r, ok := a.message.(*wait.Request); ok {
			places[r]++
		}
	}
	holding, members, waiting := 0, 0, h.Queue.Len
	h.each(func(s *State) {
		view := c.view(h, s)
		view.places(places)
		if err := view.check(0); err != nil { // at time 0, as if no deadline had passed: a member notices a passed deadline only in its next step
			errs = append(errs, fmt.Errorf("member %d: %w", members, err))
		}
		if s == &h.common {
			return
		}
		waiting += s.Queue.Len
		if members++; s.grant != nil {
			holding++
		}
		if s.member.gone || s.Idle() && s.AlarmAt == clock.Never {
			errs = append(errs, fmt.Errorf("member %d has nothing left to do, but stays", members))
		}
	})
	errs = append(errs, c.checkOpen(places), checkOrder(h))
	if members != h.members || holding != h.holding || waiting != h.waiting {
		errs = append(errs, fmt.Errorf("%d members, %d with a grant, %d requests wait; counted %d, %d and %d", members, holding, waiting, h.members, h.holding, h.waiting))
	}
	if panicked {
		return errors.Join(errs...) // the other rules hold again after the next step, which completes this one
	}
	errs = append(errs, c.checkListeners(h))
	switch {
	case len(h.again) > 0:
		errs = append(errs, fmt.Errorf("%d steps are left to do", len(h.again)))
	case h.Queue.Len > 0:
		if _, ok := h.find(now, h.Queue.Front()); ok {
			errs = append(errs, fmt.Errorf("the first request in line has no member, although there is room for one"))
		}
	}
	if h.Idle() && (len(c.watched) > 0 || len(c.kept) > 0) {
		errs = append(errs, fmt.Errorf("idle, but %v is watched, %v kept", c.watched, c.kept))
	}
	return errors.Join(errs...)
}

// checkOrder checks that a group lists its contenders in the order in which they have joined Redis' queue.
func checkOrder(h *Group) error {
	var last *member
	joined := int64(0)
	for s := h.first; s != nil; s = s.next {
		if s.prev != last {
			return fmt.Errorf("the list of members is broken")
		}
		if last = s; s.contends() && s.pending.standing && s.joined > 0 {
			if s.joined < joined {
				return fmt.Errorf("a contender that has joined at %d is behind one that has joined at %d", s.joined, joined)
			}
			joined = s.joined
		}
	}
	if h.last != last {
		return fmt.Errorf("the list of members is broken at its end")
	}
	return nil
}

// view returns a check of one of the group's members, with what the stepChecker knows about it.
func (c *stepChecker) view(h *Group, s *State) *memberCheck {
	v := &memberCheck{
		s: s, flying: map[*lockCall]bool{}, kept: map[*lease.Grant]bool{}, alarmAt: s.AlarmAt,
	}
	for call := range c.flying {
		v.flying[call] = call.state == s
		if call.state != s {
			delete(v.flying, call)
		}
	}
	for g := range c.kept {
		if stateOf(g) == s {
			v.kept[g] = true
		}
	}
	if l := h.listeners[s.subscription.Channel]; l != nil {
		for _, other := range l.states {
			v.watched = v.watched || other == s
		}
	}
	return v
}

// checkAlone checks that while an owner holds the lock exclusively, nobody but this owner has another lease on it.
func (c *stepChecker) checkAlone(h *Group) error {
	var writer *member
	for s := h.first; s != nil; s = s.next {
		if s.phase == held && s.Address.Kind.Grants == scripts.GrantPerLock {
			if writer != nil {
				return fmt.Errorf("%s and %s both hold the lock exclusively", writer.grant.ID, s.grant.ID)
			}
			writer = s
		}
	}
	if writer == nil {
		return nil
	}
	for s := h.first; s != nil; s = s.next {
		for _, hold := range s.holds {
			if hold.Owner != writer.holds[0].Owner || hold.Owner.IsZero() && s != writer {
				return fmt.Errorf("%s holds the lock beside %s, with which another owner holds it exclusively", s.grant.ID, writer.grant.ID)
			}
		}
	}
	return nil
}

// checkIDs checks that no two grants, attempts or orphans of a group have the same field in Redis.
func (c *stepChecker) checkIDs(h *Group) error {
	ids := map[string]bool{}
	var err error
	add := func(id string) {
		if ids[id] && id != "" {
			err = fmt.Errorf("%s is asked for, held or released twice", id)
		}
		ids[id] = true
	}
	h.each(func(s *State) {
		add(s.pending.id)
		if s.member != nil {
			add(s.member.reserved)
		}
		if s.grant != nil {
			add(s.grant.ID)
		}
		for _, g := range s.orphans.all {
			add(g.id)
		}
	})
	return err
}

func (c *stepChecker) checkListeners(h *Group) error {
	for channel, l := range h.listeners {
		if len(l.states) == 0 || !c.watched[channel] {
			return fmt.Errorf("%d members listen to %s, watched: %v", len(l.states), channel, c.watched[channel])
		}
	}
	if len(h.listeners) != len(c.watched) {
		return fmt.Errorf("%d channels are watched, %d wanted", len(c.watched), len(h.listeners))
	}
	return nil
}

// checkGroupAlarm checks that the alarm of a group is no later than the earliest alarm of a member.
func (c *stepChecker) checkGroupAlarm(h *Group) error {
	if h.AlarmAt != c.alarmAt {
		return fmt.Errorf("alarm at %v, believed at %v", c.alarmAt, h.AlarmAt)
	}
	if h.Idle() && h.AlarmAt != clock.Never {
		return fmt.Errorf("idle with an alarm")
	}
	var err error
	h.each(func(s *State) {
		if at := s.ringing; at.index > 0 && (h.alarms[at.index-1] != s || at.due > s.AlarmAt) || at.index == 0 && s.AlarmAt != clock.Never {
			err = fmt.Errorf("a member wants an alarm at %v, it has one at %v", s.AlarmAt, at.due)
		}
		if s.AlarmAt < h.AlarmAt {
			err = fmt.Errorf("a member wants an alarm at %v, it is set to %v", s.AlarmAt, h.AlarmAt)
		}
	})
	return err
}
