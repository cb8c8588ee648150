package lock

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// extension is the state of the calls that change how long a grant lasts. Such a call changes the length of the grant's fixed lease, or lengthens its
// at-least time. It is made for an extend, or for a re-entry that asks for more time than Redis has granted. The calls run one at a time. A delayed
// duplicate of an earlier call could undo the effect of the next one, so the next call waits until no such duplicate can run.
type extension struct {
	waiting        []*wait.Request // the call is for the first of them
	call           *lockCall       // in flight, or nil if there is none
	retryAt        time.Duration   // no call before this instant
	duplicateUntil time.Duration   // a delayed duplicate of an earlier call may run until this instant
	failures       wait.Failures
}

// extending returns the extension, which is made at the first use because most grants need none.
func (s *State) extending() *extension {
	if s.extension == nil { // the first call waits until no delayed duplicate of the acquire can arrive and set the acquire's lease again
		s.extension = &extension{retryAt: s.grant.duplicateUntil, duplicateUntil: s.grant.duplicateUntil}
	}
	return s.extension
}

// onExtend queues an extend. If the extend asks for an at-least time, and Redis has already granted enough time, the extend is answered at once,
// without a call. An extend is refused if the lease has ended. It is also refused if it asks for a new length of a lease that the watchdog renews:
// only a fixed lease has a length that a user can set.
func (s *State) onExtend(now time.Duration, r *wait.Request) {
	switch {
	case !s.has(r.Hold):
		s.Fail(r, endOf(r.Hold))
	case r.AtLeast > 0 && !s.grant.lacks(now, r):
		s.extended(now, r)
	case s.grant.Watched && r.AtLeast == 0:
		s.Fail(r, fmt.Errorf("%w: the lease is renewed by the watchdog, only a fixed one can be extended", protocol.ErrInvalid))
	default:
		e := s.extending()
		e.waiting = append(e.waiting, r)
	}
}

// endOf returns the reason why a hold has ended.
func endOf(h *lease.Hold) error {
	return cmp.Or(h.Reason(), protocol.ErrNotHeld)
}

// advanceExtension serves the requests that wait for an extend. If the grant has ended, it calls endExtension instead.
func (s *State) advanceExtension(now time.Duration) {
	e := s.extension
	if s.phase != held {
		s.endExtension(now)
		return
	}
	for e.call == nil && len(e.waiting) > 0 && now >= e.retryAt {
		if r := e.waiting[0]; r.Do == wait.Acquire && !s.grant.lacks(now, r) {
			s.hand(now, r) // an earlier request has extended the lease far enough
			s.extension.leave(r)
		} else {
			s.sendExtend(now, r)
		}
	}
}

// endExtension answers the waiting requests after the grant has ended. A re-entry becomes an ordinary acquire.
func (s *State) endExtension(now time.Duration) {
	waiting := s.extension.waiting
	s.extension = nil
	for _, r := range waiting {
		switch {
		case r.Do != wait.Acquire:
			s.Fail(r, endOf(r.Hold))
		case s.member != nil:
			s.Emit(wait.Effect{Do: wait.DoRequeue, Request: r})
		default:
			s.onAcquire(now, r)
		}
	}
}

// sendExtend asks Redis to set the remaining time of the grant's lease. For a fixed lease, it asks for the requested time, or for the rest of the
// grant's at-least time if that is longer. For a lease that the watchdog renews, it asks for the time that a renewal would set. Until the reply
// comes, nobody knows whether Redis has executed the call, so the earlier of the old and the new deadline of a fixed lease counts. The grant's field
// `longest` keeps the longest lease that was asked for, because Redis may keep the grant for that long.
func (s *State) sendExtend(now time.Duration, r *wait.Request) {
	s.grant.KeepFor(now, r.AtLeast) // before the call, so that a renewal that is sent at the same time also keeps the at-least time
	length := max(r.Lease, s.grant.Missing(now))
	if s.grant.Watched {
		length = s.grant.Renewal(now)
	}
	s.extension.call = &lockCall{do: callExtend, address: s.Address, terms: scripts.Terms{Grant: s.grant.ID, Lease: length}}
	s.extension.call.Timing = rpc.Hasty(now, rpc.Window(min(length, s.grant.Left(now)))) // leaves time for a second attempt
	s.Emit(wait.Effect{Do: wait.DoCall, Call: s.extension.call})
	s.grant.longest = max(s.grant.longest, length)
	if short := lease.Deadline(now, length); !s.grant.Watched && short < s.grant.Until() {
		s.grant.Move(short)
		s.guarded = true
	}
}

// onExtendDone moves the deadline of a fixed lease after a confirmed extend. As after an acquire, the lease counts from the instant before the call
// was sent. The grant is then removed from the watchdog and added again, because the watchdog's timer was set for the old deadline. If the watchdog
// renews the lease, onExtendDone does not move the deadline: the watchdog sets it.
//
// If the outcome is unknown, the call is repeated. Until a reply comes, the deadline stays at the earlier of the old and the new one.
func (s *State) onExtendDone(now time.Duration, m *callDone) {
	e := s.extension
	if e == nil || m.call != e.call || s.phase != held {
		return // the extend was cancelled, or the grant has ended
	}
	e.call = nil
	switch {
	case m.class == scripts.Done && !m.held:
		s.lose(now, protocol.LossDeleted, false)
	case m.class == scripts.Done && s.grant.Watched: // the watchdog sets its deadline
		s.extended(now, e.waiting[0])
	case m.class == scripts.Done:
		s.grant.Move(lease.Deadline(m.sent, m.call.terms.Lease))
		s.Emit(wait.Effect{Do: wait.DoDrop, Grant: &s.grant.Grant})
		s.Emit(wait.Effect{Do: wait.DoKeep, Grant: &s.grant.Grant})
		s.extended(now, e.waiting[0])
	case m.class == scripts.Rejected:
		r := e.waiting[0]
		s.extension.leave(r)
		s.Fail(r, scripts.Explain(m.err))
	default:
		if m.class == scripts.Unknown {
			e.duplicateUntil = max(e.duplicateUntil, m.call.Deadline)
		}
		e.failures.Add(now, &m.call.Call, m.err)
		e.retryAt = now + s.Policy.Backoff(e.failures.Count)
		if r, cause := e.waiting[0], e.failures.Last; e.failures.Silent(now, 0) >= s.Policy.Patience {
			s.extension.leave(r)
			s.Fail(r, unprolonged(r, cause))
		}
	}
}

// unprolonged returns the error for a request whose call Redis has not confirmed, because Redis has been silent for too long. The request is an
// extend, or a re-entry that asks for more time.
func unprolonged(r *wait.Request, cause error) error {
	if r.Do == wait.Acquire {
		return fmt.Errorf("prolonging the lease that its owner holds was not confirmed: %w", cause)
	}
	return fmt.Errorf("not confirmed, the shorter of the two leases counts: %w", cause)
}

// extended answers a request whose extend Redis has confirmed, or a request that needs no extend.
func (s *State) extended(now time.Duration, r *wait.Request) {
	if r.Do == wait.Acquire {
		s.hand(now, r)
	} else {
		s.grant.KeepFor(now, r.AtLeast)
		r.Until = s.grant.Until()
		s.Answer(r, nil)
	}
	s.extension.leave(r)
}

// leave removes r from the requests that wait for an extend. It returns false if r is not one of them. If a call was in flight for r, the next
// request waits until no duplicate of that call can run.
func (e *extension) leave(r *wait.Request) bool {
	if e == nil {
		return false
	}
	i := slices.Index(e.waiting, r)
	if i < 0 {
		return false
	}
	e.waiting = slices.Delete(e.waiting, i, i+1)
	if i > 0 {
		return true
	}
	if e.call != nil && !e.call.Withdraw() {
		e.duplicateUntil = max(e.duplicateUntil, e.call.Deadline)
	}
	e.call, e.failures, e.retryAt = nil, wait.Failures{}, e.duplicateUntil
	return true
}

// nextAt returns the instant of the next call, or clock.Never if none is due.
func (e *extension) nextAt() time.Duration {
	if len(e.waiting) == 0 || e.call != nil {
		return clock.Never
	}
	return e.retryAt
}
