package lock

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/turns"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// New makes the machine of a lock: a Group if the lock may have several contenders or grants at a time, otherwise a State. A State may take over the
// memory of the previous machine of the same actor (`previous`, which is nil if there is none).
func New(policy *wait.Policy, address *lease.Address, self lease.Actor, previous wait.Machine) wait.Machine {
	if address.Kind.Many() {
		many := &Group{}
		many.init(policy, address, self)
		return many
	}
	one, _ := previous.(*State)
	if one == nil {
		one = &State{}
	}
	*one = State{holds: one.holds[:0], releasers: one.releasers[:0]}
	one.init(policy, address, self)
	return one
}

// Group is the machine of a lock that may have several contenders or grants at once. There are three such kinds: a fair lock has a place in Redis'
// queue for each waiter, a read/write lock may have several readers, and a semaphore may have several permits. Each contender or grant is a member,
// which has a State of its own. The group decides which requests become part of a member (group_admit.go). It passes each message to the member
// concerned, and combines the members' effects into those of one actor (group_effects.go).
//
// A member decides about its own contender or grant. The group decides whatever concerns several of them: which members ask Redis, which are
// subscribed to a channel, which grants exclude each other, and when the process has its turn.
//
// A step of one member may lead to steps of others, for example when a release makes another member the holder. The group puts these further steps
// into a list (Group.again), and takes them one after another when the running step has ended. So no member changes during its own step.
type Group struct {
	wait.Base // its Queue has the requests that wait to become part of a member
	self      lease.Actor

	waiting int     // number of requests that wait, in Queue or in a member
	first   *member // the members, oldest first
	last    *member
	members int
	common  State       // what is about no member: orphans that a failover has brought back, and the last orphan that was released
	turns   turns.Turns // all members take their turns together

	spare    spare
	failures wait.Failures // the latest consecutive calls that got no definite answer, counted over all members

	alarms    alarms
	arrivals  uint64 // number of members so far
	joins     uint64 // how often members have asked to join Redis' queue with a new grant
	listeners map[string]*listeners
	dueAt     time.Duration // when there is something to do; AlarmAt may be earlier
	again     []again       // steps of members that have not been taken yet, in order
	atHand    again         // the step that is running
	holding   int           // number of members with a grant
	fixed     int           // number of members with a fixed lease, whose loss in Redis this process notices only if it asks
	lookAt    time.Duration // when Redis is next asked whether it still has those fixed leases, or 0 if that is not planned
	wanted    bool          // ask Redis once more about the fixed leases, even if no request waits
}

// member is one contender or grant.
type member struct {
	State
	group      *Group
	prev, next *member
	reserved   string // the plain id (pendingGrant.plain) for the next grant, or "" if that grant gets a new id
	first      bool   // the member was the first in Redis' queue when it last asked
	asked      uint64 // the value of Group.joins when the member first asked for its pending grant
	joined     int64  // when the member's pending grant joined Redis' queue, in microseconds of server time, or 0 if the grant has not joined
	others     string // the channel of the other kinds of lock (Kind.Others) while the member is subscribed to it, or ""
	shared     bool   // holders with the usual lease may share this member
	counted    bool   // the member is counted in group.holding
	fixed      bool   // the member is counted in group.fixed
	gone       bool
}

// listeners are the members that are subscribed to one channel.
type listeners struct {
	states []*State
	ready  bool
}

// again is a step of a member that follows from another step. If the message is nil, the member only does what is due at this time.
type again struct {
	state   *State
	message any
}

func (h *Group) init(policy *wait.Policy, address *lease.Address, self lease.Actor) {
	h.Base, h.self, h.dueAt = wait.NewBase(policy, address), self, clock.Never
	h.Queue.Total = &h.waiting
	h.listeners = map[string]*listeners{}
	h.common.init(policy, address, self)
	h.common.ringing = &alarmEntry{}
	h.spare.count = contendersMax
}

// Step handles one message and returns the effects, which then belong to the caller.
//
// After the message, Step does what is due, in a fixed order. It ends lingering grants before it admits waiters. If a lingering grant has expired,
// its member ends at once, so no waiter has to wait for that member. Step admits waiters before it calls promote, which chooses the first contender:
// one of the admitted waiters may be the first.
func (h *Group) Step(now time.Duration, message any) []wait.Effect {
	h.follow(now) // after a panic: take the steps that could not be taken before it
	h.receive(now, message)
	h.advanceStage(now)
	h.advanceLook(now)
	if h.Address.Kind.Grants == scripts.GrantPerHolder {
		h.advanceSpare(now)
	}
	h.endLinger(now)
	h.admitWaiters(now)
	h.promote(now)
	h.reportSlow(now)
	h.setAlarm()
	return h.TakeEffects()
}

// receive passes a message to the members that it concerns: a result to the member that made the call, a message about a grant to the member that has
// the grant.
func (h *Group) receive(now time.Duration, message any) {
	switch m := message.(type) {
	case *wait.Request:
		h.onRequest(now, m)
	case wait.CancelRequest:
		h.onCancel(now, m)
	case *callDone:
		h.forward(now, m.call.state, m)
	case lease.Due:
		h.forward(now, stateOf(m.Grant), m)
	case lease.Gone:
		h.forward(now, stateOf(m.Grant), m)
	case wait.ChannelReady:
		h.onChannelReady(now, m)
	case wait.ChannelMessage:
		h.onChannelMessage(now, m)
	case wait.Alarm:
		h.onAlarm(now, m)
	case wait.Freed:
		h.onFreed(m)
		h.follow(now)
	case wait.LookAround, wait.Demanded, wait.DemandsMissed:
		h.each(func(s *State) { h.deliver(now, s, m) })
	case wait.Close:
		h.onClose(m)
	}
}

// forward delivers a message to the state that it is about, unless that state belongs to the machine of the actor's previous name. `s` is nil if that
// machine was a State.
func (h *Group) forward(now time.Duration, s *State, message any) {
	if s == &h.common || s != nil && s.member != nil && s.member.group == h {
		h.deliver(now, s, message)
	}
}

// onRequest chooses the member that serves a request. It stores the member in the request's Part, so that a cancel finds the member.
func (h *Group) onRequest(now time.Duration, r *wait.Request) {
	switch r.Do {
	case wait.Acquire:
		h.admit(now, r, false)
	case wait.Release, wait.Extend:
		s := stateOf(r.Hold.Grant)
		r.Part = s
		if r.Do == wait.Release && h.Address.Kind.Grants == scripts.GrantPerHolder {
			h.succeed(now, s, r)
		}
		h.deliver(now, s, r)
	}
}

// servedBy returns the member that serves a request, or served it last.
func servedBy(r *wait.Request) *State { return r.Part.(*State) }

// onCancel ends the wait of a request. If the lock is fair, the waiters behind this request first move up, so that the process keeps the request's
// place in Redis' queue.
func (h *Group) onCancel(now time.Duration, m wait.CancelRequest) {
	switch r := m.Request; {
	case h.Queue.Remove(r):
		h.Answer(r, h.waitError(now, r, m.Cause))
	case r.Part != nil:
		h.moveUp(now, r)
		h.deliver(now, servedBy(r), m)
	}
}

// onChannelReady wakes all members that are subscribed to the channel. It also notes that the subscription is confirmed. Members that subscribe later
// need this note, because the actor subscribes only once to a channel, and so gets only one confirmation.
func (h *Group) onChannelReady(now time.Duration, m wait.ChannelReady) {
	if l := h.listeners[m.Channel]; l != nil {
		l.ready = true
		h.turns.OthersListen = true
		if h.Address.Kind.Grants == scripts.GrantPerHolder {
			h.spare.freed(now, now+h.Policy.Spread(m.Among), 1) // let one waiter ask: a release before the subscription was not announced to this process
		}
		h.tell(now, l, m)
	}
}

// onChannelMessage wakes the members that are subscribed to the channel. If processes take turns, the message counts once for the whole group, and
// not once for each member, because all members share the turns of the process.
func (h *Group) onChannelMessage(now time.Duration, m wait.ChannelMessage) {
	l := h.listeners[m.Channel]
	switch {
	case l == nil:
	case h.Address.Kind.Grants == scripts.GrantPerHolder:
		h.spare.freed(now, now, m.Releases)
	case h.Address.Kind.Queued:
		h.tell(now, l, m)
	case h.holding > 0: // this may be the message of this process's own release, so it is not counted as another process's turn
		h.turns.Overheard(m.Releases)
		h.tell(now, l, woken{now})
	default:
		if at := h.turns.Hear(&h.Policy.Policy, now, m.Releases); at != clock.Never {
			h.tell(now, l, woken{at})
		}
	}
}

// tell makes each listener handle a message. It uses a copy of the list, because a step may end a subscription.
func (h *Group) tell(now time.Duration, l *listeners, message any) {
	for _, s := range slices.Clone(l.states) {
		h.deliver(now, s, message)
	}
}

// onAlarm delivers the alarm to each member whose alarm is due. The heap may have an alarm at an earlier instant than the member now wants. That
// member gets no alarm now, and goes back into the heap with its later instant.
func (h *Group) onAlarm(now time.Duration, m wait.Alarm) {
	h.AlarmAt, h.dueAt = clock.Never, clock.Never
	for range h.alarms.Len() { // the number is limited, because a member may set another alarm that is already due
		s := h.alarms.take(now)
		if s == nil {
			break
		}
		if s.AlarmAt <= now {
			h.deliver(now, s, m)
		} else {
			h.alarms.set(s, s.AlarmAt)
		}
	}
	h.dueAt = h.alarms.next()
}

// onClose refuses the waiters that are not part of a member. advanceStage does the rest.
func (h *Group) onClose(m wait.Close) {
	h.Stage = max(h.Stage, m.Stage)
	h.RefuseAll(protocol.ErrClosed)
}

// advanceStage passes the stage of a shutdown on to the members. While the runtime drains, a contender may continue if its owner already holds the
// lock exclusively. The owner may need this second hold to finish its work and to release the first. If the first hold ends before the contender gets
// the lock, the contender is refused like any other.
func (h *Group) advanceStage(now time.Duration) {
	if h.Stage == wait.Running {
		return
	}
	for s := h.last; s != nil; { // last member first, because leaving Redis' queue is cheapest at the end of the queue
		prev := s.prev
		if s.Stage < h.Stage && (h.Stage > wait.Draining || !h.enters(s)) {
			h.deliver(now, &s.State, wait.Close{Stage: h.Stage})
		}
		s = prev
	}
	if h.common.Stage < h.Stage {
		h.deliver(now, &h.common, wait.Close{Stage: h.Stage})
	}
}

// each calls f for h.common and every member. f may end the member that it is called for.
func (h *Group) each(f func(s *State)) {
	f(&h.common)
	for s := h.first; s != nil; {
		next := s.next
		f(&s.State)
		s = next
	}
}

// reportSlow reports the waiters that are not part of a member and have waited for SlowWait.
func (h *Group) reportSlow(now time.Duration) {
	limit := h.Policy.SlowWait
	for r, ahead := h.Queue.NextSlow(now, limit); r != nil; r, ahead = h.Queue.NextSlow(now, limit) {
		h.Emit(h.known().slow(now, r, ahead+h.waiting-h.Queue.Len))
	}
	h.dueAt = min(h.dueAt, h.Queue.SlowAt(limit))
}

// Idle reports whether the actor could stop, or get another name, without losing anything.
func (h *Group) Idle() bool {
	return h.members == 0 && h.Queue.Len == 0 && len(h.again) == 0 && h.common.Idle()
}

// setAlarm sets the timer to the earliest instant at which there is something to do. It does not move the timer to a later instant,
// because an alarm that is too early costs only one empty step. If the group is idle, it stops the timer.
func (h *Group) setAlarm() {
	if h.Idle() {
		h.dueAt = clock.Never
		h.SetAlarm(clock.Never)
	} else {
		h.SetAlarm(min(h.dueAt, h.AlarmAt))
	}
}

// Distrust resets the member whose step panicked, and no other member. Steps of other members may still be in Group.again, because the panic
// prevented them. The group takes them at the start of its next step, and Distrust sets an alarm for that step.
func (h *Group) Distrust(now time.Duration, r *wait.Request) []wait.Effect {
	if r != nil {
		h.forget(r)
	}
	if s := h.atHand.state; s != nil {
		moving, _ := h.atHand.message.(*wait.Request) // a request that was on its way from one member to another
		if moving != nil {
			h.Fail(moving, wait.ErrPanicked)
		}
		h.absorb(now, s, s.Distrust(now, moving))
		h.atHand = again{}
		h.count(s)
	}
	h.dueAt = min(h.dueAt, now+h.Policy.Backoff(1))
	h.setAlarm()
	return h.TakeEffects()
}

// Held returns the local leases and the number of waiters.
func (h *Group) Held() (holds []*lease.Hold, waiting int) {
	h.each(func(s *State) { holds = append(holds, s.holds...) })
	return holds, h.waiting
}

// forget removes a request that the caller of Distrust answers. The request may be in the queue, in the running step, in a step that follows, in the
// effects, or in its member.
func (h *Group) forget(r *wait.Request) {
	h.Queue.Remove(r)
	if h.atHand.message == r {
		h.atHand.message = nil
	}
	h.Unanswer(r)
	h.again = slices.DeleteFunc(h.again, func(a again) bool { return a.message == r })
	if r.Part != nil {
		servedBy(r).forget(r)
		h.again = append(h.again, again{servedBy(r), nil}) // the member may have nothing left to do
	}
}
