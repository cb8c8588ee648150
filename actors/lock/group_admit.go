package lock

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// This file decides which requests become part of a member, and when. Requests are admitted in order of arrival: if a request has to wait, all later
// requests wait behind it (admit describes the exceptions). Without this order, a steady stream of readers could keep a writer of the same process
// waiting for ever.

const (
	// contendersMax limits how many waiters of a process ask Redis at the same time, for locks that several may hold together.
	contendersMax = 16
	// behindMax is the maximum number of members that move up when a waiter ahead of them gives up.
	behindMax = 16
)

// admit answers a request, makes it part of a member, or queues it. If `before` is true, the request was part of a member until now, so it is already
// counted as a waiter.
//
// A request that re-enters the lock does not wait behind the queue. The queued requests may be waiting for its owner to release the lock, so the
// owner would wait for itself. For the same reason, a request that wants to share the lock does not wait behind the queue if its owner holds the lock
// exclusively.
func (h *Group) admit(now time.Duration, r *wait.Request, before bool) {
	if !before {
		r.Came = now
	}
	if err := h.objection(r); err != nil {
		h.Answer(r, err)
		return
	}
	if s := h.reentered(r); s != nil {
		h.join(now, s, r)
		return
	}
	if h.above(r) != nil { // the queued requests wait for this very owner
		h.join(now, &h.newMember(r).State, r)
		return
	}
	switch waiting := h.waiting; {
	case r.Try && !h.open(now, r): // MaxWaiters does not apply to a try, because a try does not wait
		h.wanted = h.fixed > 0
		h.Answer(r, h.busyError(now, r))
	case waiting >= h.Policy.MaxWaiters && !before:
		h.Answer(r, r.Because(wait.TooMany(waiting)))
	case h.Queue.Len > 0 || !h.place(now, r):
		h.Queue.Push(r)
	}
}

// objection returns the error for an acquire that cannot be served at all, or nil if it can.
func (h *Group) objection(r *wait.Request) error {
	switch {
	case h.upgrades(r):
		return r.Because(protocol.ErrUpgrade)
	case h.Stage >= wait.Draining && h.reentered(r) == nil && h.above(r) == nil:
		return r.Because(protocol.ErrClosed)
	}
	return nil
}

// open reports whether the try r can become part of a member without waiting for other requests. A try may wait only for members that end soon
// because no caller needs them any more (see vacates). A try that wants to share the lock may join the holders that share it. For a try that wants
// the lock exclusively, the lock is taken if it has any holder.
func (h *Group) open(now time.Duration, r *wait.Request) bool {
	if h.Queue.Len > 0 {
		return false
	}
	for s := h.first; s != nil; s = s.next {
		exclusive := r.Address.Kind.Grants == scripts.GrantPerLock
		if s.contends() && (exclusive || s.waits(now)) || len(s.holds) > 0 && exclusive {
			return false
		}
	}
	_, ok := h.find(now, r)
	return ok || h.vacates(r)
}

// vacates reports whether all members that exclude r will end soon, because no caller needs them. Such a member has only a lingering grant, or a call
// in flight whose caller has given up. No user holds the lock through such a member, so a try may wait until the member ends.
func (h *Group) vacates(r *wait.Request) bool {
	for s := h.first; s != nil; s = s.next {
		beside := s.Address.Kind.Grants != scripts.GrantPerLock && r.Address.Kind.Grants != scripts.GrantPerLock
		if !beside && len(s.holds)+s.Queue.Len+len(s.releasers) > 0 {
			return false
		}
	}
	return true
}

// admitWaiters admits waiters until the next one has to wait.
func (h *Group) admitWaiters(now time.Duration) {
	for r := h.Queue.Front(); r != nil; r = h.Queue.Front() {
		if !h.place(now, r) {
			return
		}
	}
}

// place makes r part of a member, unless r has to wait for that.
func (h *Group) place(now time.Duration, r *wait.Request) bool {
	s, ok := h.find(now, r)
	if !ok {
		return false
	}
	if s == nil {
		s = h.newMember(r)
	}
	h.Queue.Remove(r)
	h.join(now, &s.State, r)
	return true
}

// find returns the member for r, or nil if r needs a new one. ok is false if r has to wait.
func (h *Group) find(now time.Duration, r *wait.Request) (s *member, ok bool) {
	switch kind := r.Address.Kind; {
	case kind.Queued:
		return nil, true
	case kind.Grants == scripts.GrantPerLock:
		return h.findAlone(r)
	case kind.Grants == scripts.GrantPerProcess:
		return h.findShared(now, r)
	default:
		return h.findOwn(r)
	}
}

// moveUp keeps a place in Redis' queue for this process when the waiter at that place gives up. Each later waiter of this process takes the place of
// the waiter ahead of it. So the process loses only the last of its places. If it lost the place of the waiter that gives up, a process with
// impatient waiters might never reach the head of the queue. No other process waits longer because waiters move up. There may be very many waiters,
// so at most behindMax of them move up.
func (h *Group) moveUp(now time.Duration, gone *wait.Request) {
	s := servedBy(gone).member
	if s == nil || !s.Address.Kind.Queued || gone.Queue != &s.Queue {
		return
	}
	places, behind := []*member{s}, 0
	for other := s.next; other != nil && behind < behindMax; other = other.next {
		behind++
		if !other.contends() || other.Queue.Front().Try { // a try has no place in Redis' queue: Redis refuses it if the lock is taken
			continue
		}
		if !places[len(places)-1].suits(other.Queue.Front()) {
			break
		}
		places = append(places, other)
	}
	for i := len(places) - 1; i > 0; i-- { // the last waiter moves first, because a member gives its place up as soon as it has no waiter
		from := places[i]
		r := from.Queue.Front()
		from.Queue.Remove(r)
		h.join(now, &places[i-1].State, r)
		h.deliver(now, &from.State, nil) // so that a member without a waiter ends
	}
}

// suits reports whether r can use the place in Redis' queue that this member has, or has asked for.
func (s *member) suits(r *wait.Request) bool {
	asked := s.pending.standing || s.inflight != nil && !s.inflight.terms.Try
	return asked && r.Terms == s.pending.terms
}

// findAlone finds the member for a request that wants the lock exclusively, for example a write lock. All such requests share one member, so that its
// grant can be handed on inside the process. A request has to wait while a member of another kind has a grant or waiters: the requests of that member
// came first.
func (h *Group) findAlone(r *wait.Request) (found *member, ok bool) {
	for s := h.first; s != nil; s = s.next {
		if s.Address.Kind == r.Address.Kind {
			found = s
		} else if !s.ended() {
			return nil, false
		}
	}
	return found, true
}

// findShared finds the member for a request that shares the lock. The request has to wait while another member holds the lock exclusively, or waits
// for an exclusive hold. Requests for the usual lease share one member as long as that member's lease is renewed. A request with other terms gets a
// member of its own. A try also gets its own member if the shared member is still waiting for a grant.
func (h *Group) findShared(now time.Duration, r *wait.Request) (found *member, ok bool) {
	for s := h.first; s != nil; s = s.next {
		switch {
		case s.Address.Kind.Grants == scripts.GrantPerLock && !s.ended():
			return nil, false
		case !s.shared || r.Own() || s.phase == held && !s.grant.sound(now):
		case r.Try && s.contends(): // the try gets its own member, because the waiters of this one may wait longer than a try may
		case found == nil || s.phase == held:
			found = s
		}
	}
	return found, found != nil || h.mayContend(now, r)
}

// mayContend reports whether r may get a new member, which asks Redis. At most contendersMax waiters ask at the same time. While a waiter pauses
// after a refusal, no further waiter begins to ask, because Redis would refuse that waiter as well. Tries do not count towards the limit, because
// they end after one answer.
func (h *Group) mayContend(now time.Duration, r *wait.Request) bool {
	n := 0
	for s := h.first; s != nil; s = s.next {
		switch {
		case !s.contends():
		case s.waits(now):
			return false
		case !s.Queue.Front().Try:
			n++
		}
	}
	return r.Try || n < contendersMax
}

// upgrades reports whether r's owner shares the lock and now wants to hold it exclusively. Such an owner would wait for its own release.
func (h *Group) upgrades(r *wait.Request) bool {
	return r.Address.Kind.Grants == scripts.GrantPerLock && h.exclusive(r.Owner) == nil &&
		h.holds(r.Owner, func(s *member) bool { return s.Address.Kind.Grants != scripts.GrantPerLock }) != nil
}

// above returns the member with which r's owner holds the write lock, if r asks for the read lock: a writer may also read. Otherwise it returns nil.
func (h *Group) above(r *wait.Request) *member {
	if r.Address.Kind.Grants == scripts.GrantPerLock {
		return nil
	}
	return h.exclusive(r.Owner)
}

// enters reports whether a contender's owner holds the lock exclusively.
func (h *Group) enters(s *member) bool { return s.contends() && h.above(s.Queue.Front()) != nil }

// exclusive returns the member with which an owner holds the lock exclusively, or nil if there is none.
func (h *Group) exclusive(owner protocol.Owner) *member {
	return h.holds(owner, func(s *member) bool { return s.Address.Kind.Grants == scripts.GrantPerLock })
}

// holds returns the first member with which the owner holds the lock and for which such(member) is true, or nil if there is none.
func (h *Group) holds(owner protocol.Owner, such func(s *member) bool) *member {
	if owner.IsZero() {
		return nil
	}
	for s := h.first; s != nil; s = s.next {
		if such(s) && s.heldBy(owner) {
			return s
		}
	}
	return nil
}

// reentered returns the member with which r's owner already holds the lock, so that r re-enters, or nil if there is none.
func (h *Group) reentered(r *wait.Request) *State {
	if !r.Address.Kind.Owned {
		return nil
	}
	s := h.holds(r.Owner, func(s *member) bool { return s.Address.Kind == r.Address.Kind })
	if s == nil {
		return nil
	}
	return &s.State
}

// newMember appends a member for r. Later requests may share the member. Members are in order of arrival, except that contenders in Redis' queue are
// in the order of that queue. The order of the members decides which contender is the first one, which grant a release names as its heir, and which
// waiters move up.
func (h *Group) newMember(r *wait.Request) *member {
	s := &member{group: h, shared: r.Address.Kind.Grants == scripts.GrantPerProcess && !r.Own()}
	s.init(h.Policy, r.Address, h.self)
	s.Queue.Total = &h.waiting
	h.arrivals++
	s.ringing = &alarmEntry{order: h.arrivals}
	s.turns, s.member = &h.turns, s
	s.standby = r.Address.Kind.Queued && h.holding+h.members > 0
	if writer := h.above(r); writer != nil {
		s.shared = false
		if !writer.grant.lent { // the first read grant of a writer takes the write grant's plain id; further read grants get new ids
			writer.grant.lent, s.reserved = true, writer.grant.plain
		}
	}
	h.link(s, h.last)
	h.members++
	return s
}

// link puts a member behind the member `ahead`, or at the front if that is nil.
func (h *Group) link(s, ahead *member) {
	s.prev, s.next = ahead, h.first
	if ahead == nil {
		h.first = s
	} else {
		s.next = ahead.next
		ahead.next = s
	}
	if s.next == nil {
		h.last = s
	} else {
		s.next.prev = s
	}
}

func (h *Group) unlink(s *member) {
	if s.prev == nil {
		h.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		h.last = s.prev
	} else {
		s.next.prev = s.prev
	}
}

// joined notes that the contender s has joined Redis' queue, and moves s to its place in the order of joining: behind the last contender that joined
// earlier, and ahead of those that have not joined yet. This order differs from the order of arrival if calls overtake each other or are lost.
//
// If the reply to the first call was lost, the call is repeated. The reply to the repeat does not say when the contender joined. In this case, the
// contender moves ahead of the contenders that began to ask after it did.
func (h *Group) joined(s *member, done *callDone) {
	at := done.acquired.Joined
	// There is nothing to do if the contender is no longer in the queue, or if it was already in the queue before this call.
	if !s.pending.standing || s.pending.id != done.call.terms.Grant || done.call.terms.Standing {
		return
	}
	ahead := s.prev
	h.unlink(s)
	for ahead == s || ahead != nil && !ahead.joinedBefore(s, at) {
		ahead = ahead.prev
	}
	h.link(s, ahead)
	switch {
	case at > 0:
		s.joined = at
	case ahead != nil:
		s.joined = ahead.joined
	default:
		s.joined = 1
	}
}

// joinedBefore reports whether s joined Redis' queue before `other`, which joined at the time `at`. If that time is unknown, `at` is 0, and the
// contender that asked first counts as the one that joined first.
func (s *member) joinedBefore(other *member, at int64) bool {
	switch {
	case !s.contends() || s.joined == 0:
		return false
	case at == 0:
		return s.asked < other.asked
	}
	return s.joined <= at
}

// rejoins moves a member behind all others when it asks for a new grant, because the new grant joins Redis' queue at the end. If other members were
// behind it until now, the member also returns to standby. This matters if Redis loses a whole queue, so that all waiters of this process ask for new
// grants. Without the standby, all of them would be subscribed, and each would ask about every second.
func (h *Group) rejoins(s *member) {
	if !h.Address.Kind.Queued {
		return
	}
	h.joins++
	s.asked = h.joins
	if s != h.last {
		h.unlink(s)
		h.link(s, h.last)
		s.standBy()
	}
}

// leaveMember removes a member that has nothing left to do.
func (h *Group) leaveMember(s *member) {
	h.unlink(s)
	s.gone = true
	h.alarms.set(&s.State, clock.Never)
	h.members--
}

// promote ends the standby of this process's first contender when there is no local holder, so that the contender subscribes to the channel. As long
// as there was a local holder, the contender needed no message: the holder's release would have made it the next holder (heir).
func (h *Group) promote(now time.Duration) {
	if !h.Address.Kind.Queued || h.holding > 0 {
		return
	}
	for s := h.first; s != nil; s = s.next {
		if s.contends() {
			if s.standby {
				h.deliver(now, &s.State, promoted{})
			}
			return
		}
	}
}

// contends reports whether a request waits in this member for a grant that Redis has to make.
func (s *State) contends() bool {
	return s.Queue.Len > 0 && (s.phase == free || s.phase == acquiring)
}

// waits reports whether a contender pauses before it asks again, because it was refused or got no answer.
func (s *State) waits(now time.Duration) bool {
	return s.contends() && (s.failures.Count > 0 || s.phase == free && s.retryAt > now)
}

// ended reports whether a member has neither a grant nor a waiter.
func (s *State) ended() bool { return s.phase == free && s.Queue.Len == 0 }
