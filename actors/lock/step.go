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

// State is all that the actor of a lock knows that has one contender and one grant at a time. It thinks in steps: a message and the time go
// in, effects come out, and nothing else happens.
type State struct {
	// fixed at construction
	policy  *wait.Policy
	address *lease.Address
	self    lease.Ref

	phase    phase
	watch    wait.Watch
	standby  bool // another of this process contends first: no need to listen, nor to ask often
	unsure   bool // the grant may have been released already: an earlier copy may have run
	guarded  bool // the grant's deadline is near or a renewal failed: watch the clock
	stage    wait.Stage
	retiring bool

	queue wait.Queue // local waiters, oldest first

	grant *grant        // phases held, passing, releasing
	holds []*lease.Hold // the local holder's leases on it; one owner's
	turn  turn

	pending  pendingGrant // phases acquiring and passing: the grant that is being asked for
	inflight *lockCall    // the main call on its way; nil: none
	failures wait.Failures

	retryAt  time.Duration // no attempt before this instant
	watchAt  time.Duration // when the channel was last needed
	busy     busy          // what the last attempt found
	turns    *turns.Turns
	ownTurns turns.Turns // what turns points to, unless several contenders take their turns together
	channel  string      // the one that is watched

	wokenFor time.Duration // when to try again after a wake-up that came while an attempt was on its way; never: none came

	releasers []*wait.Request // answered when the release or the pass in flight is confirmed

	extension *extension // what is asked about the length of the grant's fixed lease; nil: nothing was yet
	looking   *looking   // whether Redis still has a fixed lease that somebody waits behind; nil: nobody asked yet
	orphans   []orphan   // grants that may exist in Redis and must not
	claimed   int32      // holds lost here while their release was on its way
	spins     uint32     // pauses so far, of a lock that spins
	sides     []*lockCall
	clients   map[string]*client // requesters of the actor message API

	member *member // in a group; nil: alone

	alarmAt time.Duration // what the shell's timer is set to; never: off
	ringing *alarmPlace   // the same, in a group
	effects []wait.Effect
}

// init makes it ready for its first step.
func (s *State) init(policy *wait.Policy, address *lease.Address) {
	s.policy, s.address, s.alarmAt, s.turns = policy, address, clock.Never, &s.ownTurns
}

// phase is where the one grant of this process stands.
type phase uint8

const (
	free      phase = iota // nothing held, nothing asked
	acquiring              // an acquire is on its way, or will be repeated
	held                   // a local holder has the grant
	passing                // Redis is asked to replace the grant by the next holder's
	releasing              // a release is on its way, or will be repeated
)

// turn is one grant, from the acquire in Redis to its release.
type turn struct {
	start  time.Duration
	served int  // local holders so far
	spent  bool // nobody may follow
	ending bool // Redis is asked whether others wait; if not, another one begins with the next grant
}

// pendingGrant is a grant that Redis has been asked for.
type pendingGrant struct {
	plain          string // runtimeUUID:number
	id             string // the owner field made of that
	lease          time.Duration
	watched        bool
	duplicateUntil time.Duration // until then an earlier copy of the attempt may still run
	passed         time.Duration // from then on the first of those copies may have run, if it is a pass
	standing       bool          // it stands in Redis' own queue, and has to be taken out of it when it is given up
}

// busy is what is known about whoever held the lock when we were refused.
type busy struct {
	known  bool
	unset  bool // nobody can hold it yet
	holder string
	until  time.Duration
}

// Step takes one message. Its effects are appended to what s.effects has room for, and are the caller's then.
func (s *State) Step(now time.Duration, message any) []wait.Effect {
	if s.phase == held && s.grant.Left(now) <= 0 {
		s.lose(now, "expired", true) // first of all: nothing of it may be given, prolonged or passed on
	}
	s.receive(now, message)
	s.advance(now)
	s.setAlarm()
	return s.takeEffects()
}

func (s *State) Start(self lease.Ref) { s.self = self }

func (s *State) Room() *[]wait.Effect { return &s.effects }

// takeEffects leaves none behind: what is found in s.effects after a panic was never carried out.
func (s *State) takeEffects() []wait.Effect {
	effects := s.effects
	s.effects = nil
	return effects
}

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
		s.onChannelMessage(now, m.Releases)
	case woken:
		s.wake(now, m.at)
	case inherited:
		s.onInherited(now, m)
	case promoted:
		s.onPromoted(now)
	case wait.Alarm:
		s.alarmAt = clock.Never
	case lease.Due:
		s.guarded = s.guarded || s.grant.is(m.Grant)
	case lease.Gone:
		if s.grant.is(m.Grant) && s.phase == held {
			s.lose(now, m.Why(), false)
		}
	case wait.Freed:
		s.onFreed(now, m)
	case wait.LookAround:
		s.look(now)
	case wait.RequesterGone:
		s.onRequesterGone(m)
	case wait.TryRetire:
		s.retiring = true
	case wait.Close:
		s.onClose(now, m.Stage)
	}
}

func (s *State) onRequest(now time.Duration, r *wait.Request) {
	if r.Requester != nil && r.Do == wait.Acquire && !s.bind(r) {
		return
	}
	switch r.Do {
	case wait.Acquire:
		s.onAcquire(now, r)
	case wait.Release:
		s.onRelease(now, r)
	case wait.Extend:
		s.onExtend(r)
	case wait.Inspect, wait.ForceRelease:
		s.onSide(now, r)
	}
}

func (s *State) onCallDone(now time.Duration, m *callDone) {
	switch m.call.do {
	case callOrphan:
		s.onOrphanDone(now, m)
		return
	case callExtend:
		s.onExtendDone(now, m)
		return
	case callInspect, callForceRelease:
		s.onSideDone(now, m)
		return
	case callLook:
		s.onLookDone(now, m)
		return
	}
	if m.call != s.inflight {
		return // given up meanwhile; what it left behind is an orphan
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

// advance does what the state calls for, until nothing is due at this instant.
func (s *State) advance(now time.Duration) {
	if s.phase == held && len(s.holds) == 0 {
		s.next(now)
	}
	s.advanceGuard(now)
	s.advanceExtension(now)
	s.advanceLook(now)
	if s.due(now, releasing) {
		s.releaseAgain(now)
	}
	if s.due(now, passing) {
		s.passAgain(now)
	}
	if s.phase == free && s.pending.standing && s.queue.Len == 0 {
		s.abandonPending(now)
	}
	if s.due(now, acquiring) || s.phase == acquiring && s.queue.Len == 0 && s.recall() {
		s.attemptAgain(now)
	}
	s.releaseOrphans(now) // before an attempt, which would find them in its way
	switch {
	case s.phase != free || s.queue.Len == 0:
	case s.due(now, free):
		s.attempt(now)
	case s.turns.Waits(now):
		s.turns.Waited()
		s.listen() // to know who has a turn
	}
	s.advanceWatch(now)
	s.advanceEnd()
}

// due reports that it is time for the next call of a phase; a phase that ends by it leads to a later one in advance.
func (s *State) due(now time.Duration, p phase) bool {
	return s.phase == p && s.inflight == nil && now >= s.retryAt
}

// advanceGuard stops watching the clock when the grant has been renewed.
func (s *State) advanceGuard(now time.Duration) {
	if s.guarded && s.phase == held && s.grant.Watched && !s.grant.Suspect.Load() && s.grant.Left(now) > s.grant.Lease/2 {
		s.guarded = false
	}
}

// advanceEnd answers a retire hand-shake, and ends a closing actor that has nothing left.
func (s *State) advanceEnd() {
	idle := s.Idle()
	switch {
	case idle && (s.retiring || s.stage >= wait.Closing):
		s.emit(wait.Effect{Do: wait.DoStop})
	case s.retiring:
		s.emit(wait.Effect{Do: wait.DoStay})
	}
	s.retiring = false
}

// Idle reports that nothing would be missed if this actor stopped.
func (s *State) Idle() bool {
	return s.phase == free && !s.pending.standing && s.queue.Len == 0 && s.claimed == 0 && len(s.sides) == 0 &&
		len(s.orphans) == 0 && s.watch == wait.Unwatched && len(s.clients) == 0 && !s.looks()
}

// setAlarm sets the timer to the earliest instant at which advance would have something to do.
func (s *State) setAlarm() {
	at := clock.Never
	if s.inflight == nil && (s.phase != free || s.queue.Len > 0) && s.phase != held {
		at = min(at, s.retryAt)
	}
	if s.phase == held && s.guarded {
		at = min(at, s.grant.Until())
	}
	if e := s.extension; e != nil && len(e.waiting) > 0 && e.call == nil {
		at = min(at, e.retryAt)
	}
	at = min(at, s.lookAt())
	for _, g := range s.orphans {
		if !g.inflight {
			at = min(at, g.next)
		}
	}
	if s.watch != wait.Unwatched && s.queue.Len == 0 {
		at = min(at, s.watchAt+s.policy.Linger)
	}
	if at != s.alarmAt {
		s.alarmAt = at
		s.emit(wait.Effect{Do: wait.DoAlarm, At: at})
	}
}

func (s *State) emit(e wait.Effect) { s.effects = append(s.effects, e) }

// call asks the shell for a main call, whose terms are to be filled in. Its answer counts only while it is the one in flight.
func (s *State) call(do callKind) *lockCall {
	c := lockCalls.Get().(*lockCall)
	c.do, c.address = do, s.address
	s.inflight = c
	s.emit(wait.Effect{Do: wait.DoCall, Call: c})
	return c
}

// recall takes back the main call if it has not been sent. It reports that none is on its way.
func (s *State) recall() bool {
	if s.inflight != nil && s.inflight.Withdraw() {
		s.inflight = nil
	}
	return s.inflight == nil
}

// disregard forgets the call for the pending grant, whatever comes of it.
func (s *State) disregard() {
	if !s.recall() {
		s.pending.duplicateUntil = max(s.pending.duplicateUntil, s.inflight.Deadline)
		s.inflight = nil
	}
}

// fail answers that a request's operation failed, or with nil that it did not.
func (s *State) fail(r *wait.Request, cause error) {
	if cause != nil {
		cause = r.Because(cause)
	}
	s.answer(r, cause)
}

func (s *State) answer(r *wait.Request, err error) {
	r.Err = err
	if r.Requester != nil && r.Do == wait.Acquire {
		s.unwait(r)
	}
	s.emit(wait.Effect{Do: wait.DoAnswer, Request: r})
}

// holdOf finds the lease that a release or extend names; nil when it is not held here. A serial is a name for leases of actors only: a
// goroutine has its lease in its hands, and nobody else may end it.
func (s *State) holdOf(r *wait.Request) *lease.Hold {
	i := slices.IndexFunc(s.holds, func(h *lease.Hold) bool {
		return h == r.Hold || r.Hold == nil && h.Requester != nil && h.Serial == r.Serial && r.Address.Kind == s.address.Kind
	})
	if i < 0 {
		return nil
	}
	return s.holds[i]
}

// Leased reports whether somebody here has a lease.
func (s *State) Leased() bool {
	return slices.ContainsFunc(s.holds, func(h *lease.Hold) bool { return h.Until() != 0 })
}

// heldBy reports whether an owner has a lease on this grant.
func (s *State) heldBy(owner protocol.Owner) bool {
	return !owner.IsZero() && s.phase == held && slices.ContainsFunc(s.holds, func(h *lease.Hold) bool { return h.Owner == owner })
}
