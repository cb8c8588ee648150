package actors

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
)

// client is an actor that waits here or holds leases. It is watched, and what it has ends with it. All are of one system, so
// that the ID says which one it is.
type client struct {
	pid     lease.Ref
	count   int                 // waits and leases
	waiting map[uint64]*Request // its acquires, by its own IDs
}

// bind counts an acquire of an actor; false, with the answer given, when its ID is in use.
func (s *lockState) bind(r *Request) bool {
	c := s.clients[r.requester.GetId()]
	if c == nil {
		c = &client{pid: r.requester, waiting: map[uint64]*Request{}}
		if s.clients == nil {
			s.clients = map[string]*client{}
		}
		s.clients[r.requester.GetId()] = c
		s.emit(effect{do: doGuard, pid: c.pid})
	}
	if c.waiting[r.id] != nil {
		r.err = r.because(fmt.Errorf("%w: request ID %d is waiting already", protocol.ErrInvalid, r.id))
		s.emit(effect{do: doAnswer, request: r})
		return false
	}
	c.count++
	c.waiting[r.id] = r
	return true
}

// unwait notes that an actor's acquire waits no more; without a grant it counts no more either.
func (s *lockState) unwait(r *Request) {
	if c := s.clients[r.requester.GetId()]; c != nil {
		delete(c.waiting, r.id)
		if r.err != nil {
			s.unbind(r.requester)
		}
	}
}

// unbindMoved forgets an actor's acquire that waits elsewhere from now on.
func (s *lockState) unbindMoved(r *Request) {
	if c := s.clientOf(r); c != nil {
		delete(c.waiting, r.id)
		s.unbind(r.requester)
	}
}

func (s *lockState) clientOf(r *Request) *client {
	if r.requester == nil {
		return nil
	}
	return s.clients[r.requester.GetId()]
}

// unbind counts a wait or lease of an actor less, and stops watching it after the last one.
func (s *lockState) unbind(pid lease.Ref) {
	c := s.clients[pid.GetId()]
	if c == nil {
		return
	}
	if c.count--; c.count == 0 {
		delete(s.clients, pid.GetId())
		s.emit(effect{do: doUnguard, pid: c.pid})
	}
}

// onRequesterGone ends the waits of a terminated actor and releases its leases. Nobody is told, unless another actor has its name:
// that one may have asked already, and would wait for ever.
func (s *lockState) onRequesterGone(m requesterGone) {
	c := s.clients[m.pid.GetId()]
	if c == nil {
		return
	}
	delete(s.clients, m.pid.GetId())
	for _, id := range slices.Sorted(maps.Keys(c.waiting)) {
		r := c.waiting[id]
		s.queue.remove(r)
		s.leaveExtension(r)
		s.emit(farewell(r, m.replaced))
	}
	for _, h := range slices.Clone(s.holds) {
		if h.Requester == nil || h.Requester.GetId() != m.pid.GetId() {
			continue
		}
		s.unhold(h)
		if m.replaced {
			s.emit(effect{do: doTellLost, hold: h, err: fmt.Errorf("%w: %w", protocol.ErrLeaseLost, errReplaced)})
		}
	}
}

// farewell is what becomes of a wait whose requester has terminated.
func farewell(r *Request, replaced bool) effect {
	if !replaced {
		return effect{do: doForget, request: r}
	}
	r.err = r.because(fmt.Errorf("%w: %w", protocol.ErrNotAcquired, errReplaced))
	return effect{do: doAnswer, request: r}
}

var errReplaced = errors.New("the actor of this name has terminated, and what it had has ended")

// requesters are the actors that wait here or hold leases.
func (s *lockState) requesters() []lease.Ref {
	var all []lease.Ref
	for _, c := range s.clients {
		all = append(all, c.pid)
	}
	return all
}

// waitingOf finds the acquire that a Cancel of the actor message API names; nil when it has been answered.
func (s *lockState) waitingOf(pid lease.Ref, id uint64) *Request {
	if c := s.clients[pid.GetId()]; c != nil {
		return c.waiting[id]
	}
	return nil
}
