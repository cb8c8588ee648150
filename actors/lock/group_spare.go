package lock

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// spare says how many waiters of a process may ask Redis at a time if each holder has a grant of its own (scripts.GrantPerHolder). A release frees
// one grant. If all waiters asked for it, all but one would be refused. The reply to an acquire says how many grants are left, and a release message
// says that at least one is left.
type spare struct {
	count   int           // how many waiters may ask
	from    time.Duration // the instant from which waiters may ask
	heard   time.Duration // when this process last noted that a grant is free
	changes int           // how often `heard` was set
	busy    busy          // what the last refusal said about the holders
	until   time.Duration // when the next grant expires and becomes free, according to the last refusal, or clock.Never if none does
}

// freed notes that n grants have become free. Waiters may ask for them at the instant `from` or later.
func (p *spare) freed(now, from time.Duration, n int) {
	p.heard, p.from, p.count = now, from, min(p.count+n, contendersMax)
	p.changes++
}

// asked notes the reply to an acquire of s. If a release message arrived while the call was in flight, the reply may be older than the message, so at
// least one waiter may ask. Comparing the times is not enough: a message that arrived just before the call, and caused it, may have the same time as
// the call. So the counter p.changes must also have grown since the call was made.
func (p *spare) asked(s *State, done *callDone) {
	if p.count = int(min(max(done.acquired.Left, 0), contendersMax)); p.heard >= done.sent && p.changes != done.call.changes {
		p.count = max(p.count, 1)
	}
	if !done.acquired.Granted {
		p.busy, p.until = s.busy, clock.Never
		if done.acquired.TTL >= 0 {
			p.until = s.busy.until
		}
	}
}

// noteSpare updates spare with the result of a call.
func (h *Group) noteSpare(now time.Duration, s *State, done *callDone) {
	switch {
	case h.Address.Kind.Grants != scripts.GrantPerHolder:
	case done.class == scripts.Rejected && done.call.do == callAcquire:
		h.spare.freed(now, now, contendersMax) // let the other waiters ask as well: Redis refuses each of them, and gives the reason
	case done.class != scripts.Done:
	case done.call.do == callAcquire:
		h.spare.asked(s, done)
	case (done.call.do == callRelease || done.call.do == callOrphan) && !h.hears():
		h.spare.freed(now, now, 1)
	}
}

// findOwn finds the member for a request that needs a grant of its own. An existing member can serve the request if that member has neither a grant
// nor a waiter, and if no later member has a waiter. Tries do not count as waiters here. If no member can serve the request, found is nil, and the
// request needs a new member. ok is false if the request must stay in the queue. It must stay if as many waiters ask Redis as may ask (spare.count,
// but at least one), or if a waiter's call has failed. A try never has to stay.
func (h *Group) findOwn(r *wait.Request) (found *member, ok bool) {
	n := 0
	for s := h.first; s != nil; s = s.next {
		switch {
		case s.ended():
			if found == nil {
				found = s
			}
		case s.Queue.Len == 0 || s.Queue.Front().Try: // not counted: holders, and tries, which do not stay
		case !s.contends():
			found = nil // the waiter of s waits for a pass or for the end of a release, and r must not get ahead of that waiter
		case s.failures.Count > 0:
			return nil, r.Try
		default:
			found = nil
			n++
		}
	}
	return found, r.Try || n < max(h.spare.count, 1)
}

// advanceSpare makes refused waiters ask again, the oldest first. At most spare.count waiters may ask at a time, and waiters that are asking already
// count, too.
func (h *Group) advanceSpare(now time.Duration) {
	if h.waiting == 0 {
		return
	}
	room := h.spare.count
	for s := h.first; s != nil && room > 0; {
		next := s.next
		if s.contends() && !s.Queue.Front().Try {
			room--
			if s.failures.Count == 0 && s.waits(now) {
				h.deliver(now, &s.State, woken{max(now, h.spare.from)})
			}
		}
		s = next
	}
}

// exhausted reports whether this process knows that Redis has no grant to spare. The last reply said that no grant was left. No grant has become free
// since then: a release would have caused a message, which this process would have received, and the next expiry, which the last refusal announced,
// has not come yet.
func (h *Group) exhausted(now time.Duration) bool {
	return h.spare.count == 0 && now < h.spare.until && h.hears()
}

// hears reports whether this process receives the messages of releases.
func (h *Group) hears() bool {
	l := h.listeners[h.Address.Kind.Channel(h.Address.Raw, "")]
	return l != nil && l.ready
}

// hold makes the first waiter of a new member wait for a message, if Redis would refuse that waiter now.
func (s *State) hold(now time.Duration) {
	if s.Address.Kind.Grants == scripts.GrantPerHolder && s.member.group.exhausted(now) && !s.Queue.Front().Try {
		spare := &s.member.group.spare
		s.busy = spare.busy
		s.retryAt = now + upToExpiry(s.Policy, wait.PollCap+s.Policy.Jitter(wait.PollCap/4), spare.until-now)
		s.listen()
	}
}

// succeed is called when a holder releases its grant. It chooses the oldest waiter whose own acquire is not in flight. The grant is passed on to that
// waiter instead of being released. A waiter whose acquire is in flight is skipped, because that acquire might get a second grant, which would have
// to be released.
func (h *Group) succeed(now time.Duration, s *State, gone *wait.Request) {
	if h.waiting == 0 || !s.has(gone.Hold) || len(s.holds) > 1 || !s.passesOn(now) {
		return
	}
	for from := h.first; from != nil; from = from.next {
		if from.phase != free || from.Queue.Len == 0 || from.Queue.Front().Try {
			continue
		}
		heir := from.Queue.Front()
		from.Queue.Remove(heir)
		h.join(now, s, heir)
		h.deliver(now, &from.State, nil) // the waiter's former member may have nothing left to do
		return
	}
	if heir := h.Queue.Front(); heir != nil && !heir.Try {
		h.Queue.Remove(heir)
		h.join(now, s, heir)
	}
}
