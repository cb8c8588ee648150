package lock

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Side calls run beside the main call, in any phase. The result of a side call answers the request that the call was made for. The result of a
// force-release also ends the grants that the call has freed.

// onSide handles an inspect or a force-release.
func (s *State) onSide(now time.Duration, r *wait.Request) {
	c := &lockCall{do: callInspect, address: r.Address, request: r}
	c.Timing = rpc.Hasty(now, rpc.Window(s.policy.Lease))
	if r.Do == wait.ForceRelease {
		c.do = callForceRelease
		if r.Deadline > 0 && r.Deadline < c.Until { // after r.Deadline, the force-release could end the next holder's lease
			c.Until, c.Grace = r.Deadline, c.Until-r.Deadline
		}
	}
	s.sideCall(c)
}

func (s *State) sideCall(c *lockCall) {
	s.sides = append(s.sides, c)
	s.emit(wait.Effect{Do: wait.DoCall, Call: c})
}

// onSideDone answers the request of a side call.
//
// A force-release with an unknown outcome is not repeated, because the repeat could end the lease of the next holder. A side call that reached the
// server after its deadline was not executed. Such a call is repeated once.
func (s *State) onSideDone(now time.Duration, m *callDone) {
	s.onFreed(now, wait.Freed{Grants: m.freed, Reason: protocol.LossForceReleased}) // even if the request was cancelled
	i := slices.Index(s.sides, m.call)
	if i < 0 {
		return // cancelled
	}
	s.sides = slices.Delete(s.sides, i, i+1)
	r := m.call.request
	_, late := scripts.LateBy(m.err)
	switch {
	case late && !m.call.again && now < m.call.Deadline: // not executed: call once more, now that the server's clock is known better
		again := &lockCall{do: m.call.do, address: m.call.address, request: r, again: true}
		again.Timing = m.call.Timing
		s.sideCall(again)
	case m.class == scripts.Unknown && m.call.do == callForceRelease:
		s.wantLook()
		s.fail(r, fmt.Errorf("outcome unknown, the lock may be free or not: %w", m.err))
	case m.class != scripts.Done:
		s.fail(r, scripts.Explain(m.err))
	case m.call.do == callForceRelease:
		r.Held = m.held
		s.answer(r, nil)
	default:
		r.State = m.state
		r.State.Waiting = s.queue.Len
		for _, h := range s.holds {
			r.State.Local = append(r.State.Local, h.Holder())
		}
		s.answer(r, nil)
	}
}

// onFreed handles grants that this process has ended in Redis, by a force-release or by releasing permits by their ids. Their leases end here, too.
// If the reply to the acquire or pass that created such a grant is still in flight, that reply will be ignored.
func (s *State) onFreed(now time.Duration, m wait.Freed) {
	if s.phase == held && slices.Contains(m.Grants, s.grant.ID) {
		s.lose(now, m.Reason, false)
	}
	if !slices.Contains(m.Grants, s.pending.id) {
		return
	}
	if s.phase == passing { // the pass was executed
		s.tellReleasers(nil)
		s.endGrant(now, now)
	}
	s.disregard()
	s.abandonPending(now)
	s.retryAt = now
}

// cancelSide handles the cancellation of a request that waits for a side call or an extension. It answers the request. Redis may execute the call all
// the same.
func (s *State) cancelSide(now time.Duration, r *wait.Request, cause error) {
	i := slices.IndexFunc(s.sides, func(c *lockCall) bool { return c.request == r })
	switch {
	case i >= 0:
		s.sides = slices.Delete(s.sides, i, i+1)
		s.fail(r, cause)
	case !s.leaveExtension(r):
	case r.Do == wait.Acquire:
		s.answer(r, s.waitError(now, r, cause))
	default:
		s.fail(r, cause)
	}
}
