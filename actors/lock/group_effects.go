package lock

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// This file combines the effects of the members' steps into those of one actor.

// deliver makes a member handle a message, and then takes the steps that follow from it. While a step is running, deliver only notes the message:
// the running step ends first.
func (h *Group) deliver(now time.Duration, s *State, message any) {
	h.again = append(h.again, again{s, message})
	if h.atHand.state == nil { // else follow is running
		h.follow(now)
	}
}

// follow takes the noted steps in order, until none is left. Each step may note further steps. If a step panics, the steps noted behind it are taken
// in the next step of the group.
func (h *Group) follow(now time.Duration) {
	for len(h.again) > 0 {
		next := h.again[0]
		h.again = h.again[1:]
		h.take(now, next)
	}
}

// take makes a member do one step. Then take does what that step requires of the group.
//
// The member that made a call handles the result first, because that member decides what the result means for its own grant. Then the group checks
// whether the result also concerns another member. A release may have made that member the holder, or a refusal may name that member's grant or its
// place in Redis' queue. In these cases, that member steps next.
//
// At the end, a member that has nothing left to do leaves the group, unless a step is noted for it.
func (h *Group) take(now time.Duration, next again) {
	s, message := next.state, next.message
	h.atHand = next
	h.absorb(now, s, s.Step(now, message))
	h.atHand = again{}
	if h.count(s) && s.phase == held {
		h.depose(s)
	}
	if freed := s.orphans.freed; s.member != nil && freed != "" { // the member may leave the group when its orphan has ended
		h.common.orphans.freed, s.orphans.freed = freed, ""
	}
	done, answers := message.(*callDone)
	if answers {
		h.hear(now, done)
		h.noteSpare(now, s, done)
		if done.acquired.Queued {
			h.joined(s.member, done)
		}
	}
	switch {
	case !answers:
	case done.inherits:
		h.inherit(done)
	case done.acquired.Next != "":
		h.call(now, done.acquired.Next)
	case done.acquired.Holder != "" && h.tellHolder(done.acquired.Holder):
	}
	if s.member != nil && !s.member.gone && s.Idle() && !h.expects(s) {
		h.leaveMember(s.member)
	}
}

// onFreed notifies the members whose grants were ended. There may be very many members and grants, so each member is looked up in a set, and
// gets a message about its own grant only.
func (h *Group) onFreed(m wait.Freed) {
	ended := make(map[string]bool, len(m.Grants))
	for _, grant := range m.Grants {
		ended[grant] = true
	}
	h.each(func(s *State) {
		if ended[s.pending.id] {
			h.again = append(h.again, again{s, wait.Freed{Grants: []string{s.pending.id}, Reason: m.Reason}})
		}
		if s.grant != nil && ended[s.grant.ID] {
			h.again = append(h.again, again{s, wait.Freed{Grants: []string{s.grant.ID}, Reason: m.Reason}})
		}
	})
}

// expects reports whether a step is noted for a member.
func (h *Group) expects(s *State) bool {
	return slices.ContainsFunc(h.again, func(a again) bool { return a.state == s })
}

// count updates h.holding and h.fixed after a step of s. It reports whether s is a member that has just got a grant. Many decisions need to know only
// whether one of these numbers is 0. With the numbers, the group need not search its members, of which there may be very many.
func (h *Group) count(s *State) bool {
	if s.member == nil {
		return false
	}
	if fixed := s.forgettable(); fixed != s.member.fixed {
		s.member.fixed = fixed
		h.fixed += map[bool]int{true: 1, false: -1}[fixed]
	}
	if s.member.counted == (s.grant != nil) {
		return false
	}
	s.member.counted = !s.member.counted
	h.holding += map[bool]int{true: 1, false: -1}[s.member.counted]
	return s.member.counted
}

// depose ends the grants of other members that cannot exist beside the new grant of s. Because Redis has made the new grant, it must have lost those
// others, for example in a failover. Without depose, their holders would learn of the loss only at the next renewal, and until then the process would
// have two holders. The group also releases each deposed grant, because Redis may still have it. This happens if a force-release ended the grant of
// s, Redis then made the deposed grant, and the replies arrived in the opposite order.
func (h *Group) depose(s *State) {
	for other := h.first; other != nil; other = other.next {
		beside := other.Address.Kind.Grants != scripts.GrantPerLock && s.Address.Kind.Grants != scripts.GrantPerLock || other.heldBy(s.holds[0].Owner)
		if other != s.member && other.phase == held && !beside {
			h.again = append(h.again, again{&other.State, deposed{}})
		}
	}
}

// join makes r part of a member.
func (h *Group) join(now time.Duration, s *State, r *wait.Request) {
	r.Part = s
	h.deliver(now, s, r)
}

// absorb combines the effects of a member's step into those of the actor. Calls, answers and events become effects as they are. Alarms and
// subscriptions are combined: the actor has one timer, and for each channel one subscription.
func (h *Group) absorb(now time.Duration, s *State, effects []wait.Effect) {
	for i := range effects {
		switch e := &effects[i]; e.Do {
		case wait.DoCall:
			h.onCall(now, s, e.Call.(*lockCall))
			h.Emit(*e)
		case wait.DoAnswer:
			h.gather(s, e.Request)
			h.Emit(*e)
		case wait.DoAlarm:
			h.alarms.set(s, e.At)
			h.dueAt = min(h.dueAt, e.At)
		case wait.DoWatch:
			h.listen(s, e.Channel)
		case wait.DoUnwatch:
			h.unlisten(s, e.Channel)
		case wait.DoRequeue:
			h.admit(now, e.Request, true)
		default:
			h.Emit(*e)
		}
	}
}

// onCall adds to a call what only the group knows.
//
// The release of a fair lock names an heir, which is the pending grant of a contender of this process. If the heir is first in Redis' queue, the
// release script grants it the lock at once, so neither a message nor another attempt is needed. With AckReplicas, the release names no heir, because
// only an acquire can wait for replicas. If the turn has lasted long enough, the release lets waiters of other kinds of lock go first
// (Terms.TurnEnds). If a gap is due, the release names no heir either: with an heir, clients that poll would never find the lock free. The release of
// an orphan names one even then, because the process does not pause after it.
//
// A writer may acquire the read lock as well. The call then names the writer's own grant, so that the script lets this writer read.
func (h *Group) onCall(now time.Duration, s *State, call *lockCall) {
	call.state, call.changes = s, h.spare.changes
	switch {
	case (call.do == callRelease || call.do == callOrphan) && s.Address.Kind.Queued && h.Policy.AckReplicas == 0:
		if call.do == callOrphan || !h.turns.GapDue(&h.Policy.Policy, now) {
			call.terms.Heir, call.terms.HeirLease = h.heir()
		}
		call.terms.TurnEnds = s.turnOver(now)
	case call.do == callAcquire && s.Queue.Len > 0:
		if writer := h.above(s.Queue.Front()); writer != nil {
			call.terms.WriteGrant, writer.grant.lasting = writer.grant.ID, true
			writer.turn.spent = true // no other local waiter may get the write grant, because its owner is about to share the lock
		}
	}
}

// heir returns the grant that a release names as its heir, and the TTL of that grant. The heir is the pending grant of this process's first
// contender. If that contender is also the first in Redis' queue, the release gives it the lock. The release of an orphan also names an heir. The
// orphan and the heir may belong to the same member.
func (h *Group) heir() (id string, lease time.Duration) {
	for other := h.first; other != nil; other = other.next {
		if other.contends() && other.pending.id != "" {
			return other.pending.id, other.pending.ttl
		}
	}
	return "", 0
}

// inherit notifies the heir that it holds the lock.
func (h *Group) inherit(done *callDone) {
	if s := h.contender(done.call.terms.Heir); s != nil {
		h.again = append(h.again, again{s, inherited{done.call.terms.Heir, done.sent, done.call.state.turn.start}})
	}
}

// contender returns the member that asks for this grant, or nil if none does. If a member has the grant already, contender stops at that member and
// returns nil. There may be very many members, but usually the member in question is the first.
func (h *Group) contender(id string) *State {
	if !strings.HasPrefix(id, h.Policy.Runtime) {
		return nil
	}
	for s := h.first; s != nil && (s.grant == nil || s.grant.ID != id); s = s.next {
		if s.pending.id == id {
			return &s.State
		}
	}
	return nil
}

// call makes the contender with the pending grant `next` ask at once, because `next` is first in Redis' queue. This contender is usually the first
// one of this process, but not always: the calls of older contenders may have been lost. If `next` belongs to no contender, its place was given up,
// and a failover has brought the place back. The group then gives the place up once more. Otherwise other processes would wait behind it, because
// they regard all waiters of a living process as alive.
func (h *Group) call(now time.Duration, next string) {
	for s := h.first; s != nil; s = s.next {
		switch {
		case s.pending.id == next:
			h.again = append(h.again, again{&s.State, promoted{called: true}})
			return
		case s.orphans.has(next), s.grant != nil && s.grant.ID == next:
			return // the place is being given up, or has got the lock meanwhile
		}
	}
	if h.common.orphans.has(next) {
		return
	}
	h.common.orphans.add(now, next, now, h.Policy.Lease)
	h.again = append(h.again, again{&h.common, nil})
}

// tellHolder makes a contender ask at once if Redis has given it the lock and the contender does not know that yet. This happens if a release made
// the contender the holder, the reply to that release was lost, and the repeat of the release named another heir. Without tellHolder, a contender on
// standby would ask only after about a third of Options.Lease.
func (h *Group) tellHolder(id string) bool {
	s := h.contender(id)
	if s == nil || s.phase != free {
		return false
	}
	h.again = append(h.again, again{s, promoted{called: true}})
	return true
}

// gather serves the other requests of an owner when one of its requests has got the lock: the other requests re-enter. If they stayed in the queue,
// they would wait for their own owner's release.
func (h *Group) gather(s *State, r *wait.Request) {
	if r.Do != wait.Acquire || r.Err != nil || !r.Address.Kind.Owned || !s.heldBy(r.Owner) {
		return
	}
	h.gatherFrom(&h.Queue, s, r)
	for other := h.first; other != nil; other = other.next {
		if &other.State != s {
			h.gatherFrom(&other.Queue, s, r)
		}
	}
}

// gatherFrom takes the owner's requests out of one queue and moves them to the member that holds the lock. There are two exceptions. If the owner now
// holds the lock exclusively, a request that wants to share the lock gets a new member. If the owner now shares the lock, a request that wants it
// exclusively is refused.
func (h *Group) gatherFrom(q *wait.Queue, s *State, r *wait.Request) {
	if q.Owners[r.Owner] == 0 {
		return
	}
	for other := q.Front(); other != nil; {
		match, part := other, s
		other = other.Next
		switch {
		case match.Owner != r.Owner:
			continue
		case q == &h.Queue && h.upgrades(match): // the request came before its owner got the grant that now blocks it
			h.Queue.Remove(match)
			h.Answer(match, match.Because(protocol.ErrUpgrade))
			continue
		case match.Address.Kind == r.Address.Kind:
		case q == &h.Queue && h.above(match) == s.member: // the request waits to share the lock, which its owner holds exclusively now
			part = &h.newMember(match).State
		default:
			continue
		}
		q.Remove(match)
		if q != &h.Queue {
			h.again = append(h.again, again{servedBy(match), nil}) // the request's former member may have nothing left to do
		}
		match.Part = part
		h.again = append(h.again, again{part, match})
	}
}

// listen subscribes a member to a channel. For the first member on the channel, the actor subscribes. If the subscription is confirmed already, the
// group passes the confirmation on.
func (h *Group) listen(s *State, channel string) {
	l := h.listeners[channel]
	if l == nil {
		l = &listeners{}
		h.listeners[channel] = l
		h.Emit(wait.Effect{Do: wait.DoWatch, Channel: channel})
	}
	l.states = append(l.states, s)
	if l.ready {
		h.again = append(h.again, again{s, wait.ChannelReady{Channel: channel}})
	}
}

func (h *Group) unlisten(s *State, channel string) {
	l := h.listeners[channel]
	l.states = slices.DeleteFunc(l.states, func(other *State) bool { return other == s })
	if len(l.states) == 0 {
		delete(h.listeners, channel)
		h.turns.OthersListen = len(h.listeners) > 0
		h.Emit(wait.Effect{Do: wait.DoUnwatch, Channel: channel})
	}
}

// hear tracks whether Redis answers. A result, or a permanent rejection, resets the record of failures. Queued requests have no call of their own, so
// they are refused only when Redis has been silent for policy.Patience while they waited. A try at the head of the queue waits only for members to
// end (vacates), so it is refused at the first failed call. There is one exception: if that call failed because it reached Redis too late, the try
// stays, because the next call can succeed.
func (h *Group) hear(now time.Duration, done *callDone) {
	if done.class == scripts.Done || done.class == scripts.Rejected {
		h.failures = wait.Failures{}
		return
	}
	h.failures.Add(now, &done.call.Call, done.err)
	_, late := scripts.LateBy(done.err)
	for r := h.Queue.Front(); r != nil && (r.Try && !late || h.failures.Silent(now, r.Came) >= h.Policy.Patience); r = h.Queue.Front() {
		h.Queue.Remove(r)
		h.Answer(r, r.Because(h.failures.Last))
	}
}

// known returns the member that knows most about the lock's holder: one that holds the lock, or else the first contender. If there is
// neither, it returns h.common, which knows nothing.
func (h *Group) known() *State {
	known := &h.common
	for s := h.first; s != nil; s = s.next {
		if s.grant != nil {
			return &s.State
		}
		if known == &h.common && s.contends() {
			known = &s.State
		}
	}
	return known
}

func (h *Group) busyError(now time.Duration, r *wait.Request) error {
	return h.known().busyError(now, r)
}

func (h *Group) waitError(now time.Duration, r *wait.Request, cause error) error {
	return h.known().waitError(now, r, cause)
}
