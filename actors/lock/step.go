package lock

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/turns"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
)

// State is everything that the actor of a lock knows, if the lock has one contender and one grant at a time. It works in steps: a step takes a
// message and the time, returns effects, and does nothing else.
//
// Between any two steps, these rules hold:
//
//   - Each grant that may exist in Redis is known here: it is in the field `grant`, in the field `pending`, or among the orphans. A grant is
//     forgotten only when a call has shown that Redis does not have it, or when its lease has expired.
//   - At most one main call is in flight, so its result describes the state from which the next call starts. If a call must be given up,
//     its grant becomes an orphan first.
//   - The field `grant` is set in the phases held, passing and releasing, and in no others. A grant has holds only in the phase held, and none
//     while it lingers.
//   - In the phase free, the field `pending` is empty, unless the pending grant has a place in Redis' queue (standing).
type State struct {
	wait.Base
	self lease.Actor // the actor of the lock

	phase   phase
	standby bool // another contender of this process is ahead, so this one need not subscribe, nor ask often
	unsure  bool // the grant may have been released already, by an earlier copy of the release or pass
	guarded bool // the deadline of the grant is near, or a renewal failed: watch the clock

	grant     *grant        // set in the phases held, passing and releasing
	holds     []*lease.Hold // the local leases on the grant, of one owner or of several that share it
	turn      turn
	lingering bool // the grant is held by nobody, and stays for the next local holder
	demanded  bool // the grant must not linger: another process, another kind of lock or a local waiter may want the lock

	pending  pendingGrant // set in the phases acquiring and passing: the grant that Redis has been asked for
	inflight *lockCall    // the main call in flight, or nil if there is none
	failures wait.Failures

	retryAt      time.Duration // no attempt before this instant
	busy         busy          // what the last refusal said about the holder
	turns        *turns.Turns
	ownTurns     turns.Turns // `turns` points to this, unless several contenders take their turns together
	subscription wait.Subscription
	beside       int   // how many other actors of this process subscribe to this channel, because they want the lock as another kind
	row          int64 // the row of a crowd (turns.Row) that is called on the channel of `subscription`, or 0 if it is the channel of releases

	crowded  bool          // the last refusal gave a place in a crowd; with this field, an acquire of a free lock need not call Turns
	wokenFor time.Duration // when to try again after a wake-up that came while an attempt was in flight, or clock.Never if none came

	releasers []*wait.Request // answered when the release or the pass in flight is confirmed

	extension *extension // calls that extend the grant's fixed lease or at-least time, or nil if none were needed
	looking   *looking   // calls that ask whether Redis still has the grant, or nil if none were planned
	orphans   orphans    // grants that may exist in Redis but should not
	claimed   int32      // number of holds that were lost while the request to release them was on its way
	spins     uint32     // how often the pause between the attempts of a spin lock has grown

	member *member // this state as a member of a group, or nil if it is in no group

	ringing *alarmEntry // the state's alarm among those of its group, or nil if the state is in no group
}

// init prepares the state for its first step.
func (s *State) init(policy *wait.Policy, address *lease.Address, self lease.Actor) {
	s.Base, s.self, s.turns, s.orphans.base = wait.NewBase(policy, address), self, &s.ownTurns, &s.Base
}

// phase is the state of this process's one grant.
type phase uint8

const (
	free      phase = iota // nothing is held, and nothing was asked for
	acquiring              // an acquire is in flight, or will be repeated
	held                   // a local holder has the grant, or the grant lingers
	passing                // a pass, which replaces the grant by a new one for the next holder, is in flight or will be repeated
	releasing              // a release is in flight, or will be repeated
)

// turn is the time for which this process keeps the lock for its local holders. It begins with a grant in Redis, and ends when other processes may
// get the lock. Within a turn, a pass may replace the grant by a new one.
type turn struct {
	start    time.Duration
	served   int           // local holders so far
	spent    bool          // the grant must not go to another local waiter
	lingerTo time.Duration // the instant up to which the turn's grant may linger, or 0 if no grant of this turn has lingered yet
	passed   bool          // the turn had another grant before this one
	ending   bool          // Redis is being asked whether other processes wait; if no process waits, the next grant begins a new turn
}

// pendingGrant is a grant that Redis has been asked for.
type pendingGrant struct {
	plain          string // runtimeUUID:number
	id             string // the field in the lock's hash, made from plain
	terms          wait.Terms
	lease          time.Duration // the lease that its holder will have
	ttl            time.Duration // what Redis is asked for: the lease, or longer
	duplicateUntil time.Duration // a delayed duplicate of the attempt may run until this instant
	passed         time.Duration // if the attempt is a pass: the earliest instant at which a copy of it may have run
	standing       bool          // the grant is in Redis' queue, and must be removed from there when it is abandoned
	inherited      time.Duration // when this process sent the release that gave this grant the lock in Redis, or 0 if there was none
	began          time.Duration // when the turn began in which that release was sent: the same turn continues with this grant
}

// busy is what is known about the holder from the last refusal of an attempt.
type busy struct {
	known  bool
	unset  bool // the permits were never set, so nobody can hold the lock yet
	holder string
	until  time.Duration
}

// Step handles one message and returns the effects, which then belong to the caller.
func (s *State) Step(now time.Duration, message any) []wait.Effect {
	if s.phase == held && s.grant.Left(now) <= 0 {
		s.lose(now, s.grant.whyOver(), true) // before anything else: an expired grant must not be handed on, extended or passed
	}
	s.receive(now, message)
	s.advance(now)
	s.setAlarm()
	return s.TakeEffects()
}

// receive passes a message to its handler. Handlers change the state, answer requests, and end a grant or hand it on. They leave acquires, extends
// and the releases of orphans to the method `advance`, because several messages may make the same call due.
func (s *State) receive(now time.Duration, message any) {
	switch m := message.(type) {
	case *wait.Request:
		s.onRequest(now, m)
	case *callDone:
		s.onCallDone(now, m)
	case wait.CancelRequest:
		s.onCancel(now, m)
	case wait.ChannelReady:
		s.onChannelReady(now, m)
	case wait.ChannelMessage:
		s.onChannelMessage(now, m)
	case woken:
		s.wake(now, m.at)
	case inherited:
		s.onInherited(now, m)
	case promoted:
		s.onPromoted(now, m)
	case wait.Alarm:
		s.AlarmAt = clock.Never
	case lease.Due:
		s.guarded = s.guarded || s.grant.is(m.Grant)
	case lease.Gone:
		if s.grant.is(m.Grant) && s.phase == held {
			s.lose(now, protocol.LossDeleted, false)
		}
	case deposed:
		if s.phase == held {
			s.lose(now, protocol.LossDeleted, true)
		}
	case wait.Freed:
		s.onFreed(now, m)
	case wait.Demanded:
		s.onDemanded(now, m)
	case wait.DemandsMissed:
		s.demanded = true
	case wait.LookAround:
		if s.grant != nil && !s.grant.Watched { // a watched grant needs no question: its next renewal shows whether Redis has it
			s.look(now)
		}
	case wait.Close:
		s.onClose(now, m.Stage)
	}
}

func (s *State) onRequest(now time.Duration, r *wait.Request) {
	switch r.Do {
	case wait.Acquire:
		s.onAcquire(now, r)
	case wait.Release:
		s.onRelease(now, r)
	case wait.Extend:
		s.onExtend(now, r)
	}
}

// onCallDone handles the result of a call. A main call's result counts only if that call is the one in flight. Any other result belongs to a
// call that was disregarded: its grant is an orphan, and the orphan's release finds out whether that grant exists.
func (s *State) onCallDone(now time.Duration, m *callDone) {
	switch m.call.do {
	case callOrphan:
		s.orphans.onDone(now, m)
		return
	case callExtend:
		s.onExtendDone(now, m)
		return
	case callLook:
		s.onLookDone(now, m)
		return
	}
	if m.call != s.inflight {
		return // abandoned meanwhile; the grant, if there is one, is an orphan
	}
	s.inflight = nil
	switch m.call.do {
	case callAcquire:
		s.onAcquireDone(now, m)
	case callPass:
		s.onPassDone(now, m)
	case callRelease:
		s.onReleaseDone(now, m)
	}
}

// advance does whatever is due at this instant.
//
// The order matters. A grant that nobody holds comes first: it is handed on, kept or released (the method `next`), so the phase `held` may end here.
// Then come the calls about a held grant, then the repeats of releases and passes. Attempts come last, because they need the phase `free`. So one
// step may end a grant and attempt the next one.
func (s *State) advance(now time.Duration) {
	if s.turn.lingerTo > 0 {
		s.advanceLinger(now)
	}
	// Nobody holds the grant: its last holder has left, or it is new, or it lingers.
	if s.phase == held && len(s.holds) == 0 {
		s.next(now)
	}
	if s.guarded {
		s.advanceGuard(now)
	}
	if s.extension != nil {
		s.advanceExtension(now)
	}
	if s.looking != nil || s.phase == held && !s.grant.Watched {
		s.advanceLook(now)
	}
	if s.due(now, releasing) {
		s.releaseAgain(now)
	}
	if s.due(now, passing) {
		s.passAgain(now)
	}
	// No local waiter is left, but the pending grant would keep its place in Redis' queue and block the waiters behind it.
	if s.phase == free && s.pending.standing && s.Queue.Len == 0 {
		s.abandonPending(now)
	}
	// A repeat is due, or the last waiter has left and no call is in flight any more. (recall withdraws a call that is still unsent.)
	if s.due(now, acquiring) || s.phase == acquiring && s.Queue.Len == 0 && s.recall() {
		s.attemptAgain(now)
	}
	if len(s.orphans.all) > 0 {
		s.orphans.release(now) // before an attempt: an orphan that is still in Redis would make Redis refuse the attempt
	}
	switch {
	case s.phase != free || s.Queue.Len == 0:
	case s.due(now, free):
		s.attempt(now)
	case s.turns.Waits(now):
		s.turns.Waited()
		s.listen() // the release messages of other processes show when their turns end
	}
	if s.Policy.SlowWait > 0 {
		s.reportSlow(now)
	}
	if s.subscription.Watch != wait.Unwatched && s.subscription.Unneeded(&s.Base, now) {
		s.turns.Left()
		s.unlistenAll()
	}
	if s.Policy.Linger > 0 {
		s.tellLinger()
	}
}

// due reports whether it is time for the next call of a phase.
func (s *State) due(now time.Duration, p phase) bool {
	return s.phase == p && s.inflight == nil && now >= s.retryAt
}

// advanceGuard stops watching the clock when a renewal has moved the deadline away. If no further renewal can move the deadline (Final), the clock is
// watched until the grant ends.
func (s *State) advanceGuard(now time.Duration) {
	if s.phase == held && s.grant.Watched && !s.grant.Final() && !s.grant.Suspect.Load() && s.grant.Left(now) > s.grant.Lease/2 {
		s.guarded = false
	}
}

// Idle reports whether the actor could stop, or get another name, without losing anything. It must have no waiter, grant, orphan, subscription or
// place in Redis' queue, and must not be asking Redis about a grant (look.go). Also, no release may be on its way to this actor (claimed).
func (s *State) Idle() bool {
	return s.phase == free && !s.pending.standing && s.Queue.Len == 0 && s.claimed == 0 &&
		len(s.orphans.all) == 0 && s.subscription.Watch == wait.Unwatched && (s.looking == nil || s.looking.call == nil)
}

// setAlarm sets the timer to the earliest instant at which advance would have something to do. An alarm that comes too early costs one empty
// step; a missing alarm would leave a waiter waiting for ever. So every condition of advance that depends on the time has its line here.
func (s *State) setAlarm() {
	at := clock.Never
	if s.inflight == nil && (s.phase != free || s.Queue.Len > 0) && s.phase != held {
		at = min(at, s.retryAt)
	}
	if s.phase == held && s.guarded {
		at = min(at, s.grant.Until())
	}
	if s.extension != nil {
		at = min(at, s.extension.nextAt())
	}
	if s.looking != nil && s.forgettable() {
		at = min(at, s.looking.nextAt())
	}
	if s.turn.lingerTo > 0 {
		at = min(at, s.lingerAt())
	}
	if s.Policy.SlowWait > 0 {
		at = min(at, s.Queue.SlowAt(s.Policy.SlowWait))
	}
	if len(s.orphans.all) > 0 {
		at = min(at, s.orphans.nextAt())
	}
	if s.subscription.Watch != wait.Unwatched {
		at = min(at, s.subscription.UnneededAt(&s.Base))
	}
	s.SetAlarm(at)
}

// call emits a main call and returns it. The caller then fills in the terms of the call. The result counts only while this call is the one in flight.
func (s *State) call(do callKind) *lockCall {
	c := lockCalls.Get().(*lockCall)
	c.do, c.address = do, s.Address
	s.inflight = c
	s.Emit(wait.Effect{Do: wait.DoCall, Call: c})
	return c
}

// recall withdraws the main call if it has not been sent. A withdrawn call is never executed, so it leaves nothing to release. recall
// reports whether no main call is in flight now.
func (s *State) recall() bool {
	if s.inflight != nil && s.inflight.Withdraw() {
		s.inflight = nil
	}
	return s.inflight == nil
}

// disregard withdraws the call for the pending grant. If the call has been sent already, its result will be ignored, but Redis may execute the call
// until the deadline of the call. So duplicateUntil is moved to that deadline: if the grant is abandoned afterwards, it is released again and again
// until duplicateUntil.
func (s *State) disregard() {
	if !s.recall() {
		s.pending.duplicateUntil = max(s.pending.duplicateUntil, s.inflight.Deadline)
		s.inflight = nil
	}
}

// has reports whether a lease is held here.
func (s *State) has(h *lease.Hold) bool { return h.Place < len(s.holds) && s.holds[h.Place] == h }

// Held returns the local leases and the number of waiters.
func (s *State) Held() ([]*lease.Hold, int) { return slices.Clone(s.holds), s.Queue.Len }

// heldBy reports whether an owner has a lease on this grant.
func (s *State) heldBy(owner protocol.Owner) bool {
	return !owner.IsZero() && s.phase == held && slices.ContainsFunc(s.holds, func(h *lease.Hold) bool { return h.Owner == owner })
}
