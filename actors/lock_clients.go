package actors

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/protocol"
)

// client is an actor that waits here or holds leases. It is watched, and what it has ends with it.
type client struct {
	pid     *actor.PID
	count   int                 // waits and leases
	waiting map[uint64]*Request // its acquires, by its own IDs
}

// bind counts an acquire of an actor; false, with the answer given, when its ID is in use.
func (s *lockState) bind(r *Request) bool {
	c := s.clients[r.requester.String()]
	if c == nil {
		c = &client{pid: r.requester, waiting: map[uint64]*Request{}}
		if s.clients == nil {
			s.clients = map[string]*client{}
		}
		s.clients[r.requester.String()] = c
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
	if c := s.clients[r.requester.String()]; c != nil {
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
	return s.clients[r.requester.String()]
}

// unbind counts a wait or lease of an actor less, and stops watching it after the last one.
func (s *lockState) unbind(pid *actor.PID) {
	c := s.clients[pid.String()]
	if c == nil {
		return
	}
	if c.count--; c.count == 0 {
		delete(s.clients, pid.String())
		s.emit(effect{do: doUnguard, pid: c.pid})
	}
}

// onRequesterGone ends the waits of a terminated actor and releases its leases.
func (s *lockState) onRequesterGone(pid *actor.PID) {
	c := s.clients[pid.String()]
	if c == nil {
		return
	}
	delete(s.clients, pid.String())
	for _, r := range c.waiting {
		s.queue.remove(r)
		s.leaveExtension(r)
	}
	for _, h := range slices.Clone(s.holds) {
		if h.requester != nil && h.requester.Equal(pid) {
			s.unhold(h)
		}
	}
}

// waitingOf finds the acquire that a Cancel of the actor message API names; nil when it has been answered.
func (s *lockState) waitingOf(pid *actor.PID, id uint64) *Request {
	if c := s.clients[pid.String()]; c != nil {
		return c.waiting[id]
	}
	return nil
}
