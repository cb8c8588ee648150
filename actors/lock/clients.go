package lock

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
)

// client is an actor that waits here or holds leases. The shell watches it, and its waits and leases end when it terminates. All clients
// are in one actor system, so their IDs are unique.
type client struct {
	pid     lease.Ref
	count   int                      // waits and leases
	waiting map[uint64]*wait.Request // the actor's acquires that wait, by the actor's IDs for them
}

// bind registers an acquire of an actor. If the acquire's ID is in use, bind answers the request and returns false.
func (s *State) bind(r *wait.Request) bool {
	c := s.clients[r.Requester.GetId()]
	if c == nil {
		c = &client{pid: r.Requester, waiting: map[uint64]*wait.Request{}}
		if s.clients == nil {
			s.clients = map[string]*client{}
		}
		s.clients[r.Requester.GetId()] = c
		s.emit(wait.Effect{Do: wait.DoGuard, Actor: c.pid})
	}
	if c.waiting[r.ID] != nil {
		r.Err = r.Because(fmt.Errorf("%w: request ID %d is waiting already", protocol.ErrInvalid, r.ID))
		s.emit(wait.Effect{Do: wait.DoAnswer, Request: r})
		return false
	}
	c.count++
	c.waiting[r.ID] = r
	return true
}

// unwait notes that an actor's acquire no longer waits. If the acquire was not granted, the actor's count falls by one; otherwise the lease is
// counted in place of the wait.
func (s *State) unwait(r *wait.Request) {
	if c := s.clients[r.Requester.GetId()]; c != nil {
		delete(c.waiting, r.ID)
		if r.Err != nil {
			s.unbind(r.Requester)
		}
	}
}

// unbindMoved drops an actor's acquire that moves to another member. That member binds it again.
func (s *State) unbindMoved(r *wait.Request) {
	if c := s.clientOf(r); c != nil {
		delete(c.waiting, r.ID)
		s.unbind(r.Requester)
	}
}

func (s *State) clientOf(r *wait.Request) *client {
	if r.Requester == nil {
		return nil
	}
	return s.clients[r.Requester.GetId()]
}

// unbind notes that a wait or lease of an actor has ended, and stops watching the actor after the last one.
func (s *State) unbind(pid lease.Ref) {
	c := s.clients[pid.GetId()]
	if c == nil {
		return
	}
	if c.count--; c.count == 0 {
		delete(s.clients, pid.GetId())
		s.emit(wait.Effect{Do: wait.DoUnguard, Actor: c.pid})
	}
}

// onRequesterGone ends the waits of a terminated actor and releases its leases. It sends no answers, unless another actor has the same name
// now: that actor may have sent some of the requests, and would wait for their answers for ever.
func (s *State) onRequesterGone(m wait.RequesterGone) {
	c := s.clients[m.Requester.GetId()]
	if c == nil {
		return
	}
	delete(s.clients, m.Requester.GetId())
	for _, id := range slices.Sorted(maps.Keys(c.waiting)) {
		r := c.waiting[id]
		s.queue.Remove(r)
		s.leaveExtension(r)
		s.emit(farewell(r, m.Replaced))
	}
	for _, h := range slices.Clone(s.holds) {
		if h.Requester == nil || h.Requester.GetId() != m.Requester.GetId() {
			continue
		}
		s.unhold(h)
		s.emit(wait.Effect{Do: wait.DoReleased, Hold: h})
		if m.Replaced {
			s.emit(wait.Effect{Do: wait.DoTellLost, Hold: h, Err: fmt.Errorf("%w: %w", protocol.ErrLeaseLost, errReplaced)})
		}
	}
}

// farewell returns the effect that ends a wait whose requester has terminated.
func farewell(r *wait.Request, replaced bool) wait.Effect {
	if !replaced {
		return wait.Effect{Do: wait.DoForget, Request: r}
	}
	r.Err = r.Because(fmt.Errorf("%w: %w", protocol.ErrNotAcquired, errReplaced))
	return wait.Effect{Do: wait.DoAnswer, Request: r}
}

var errReplaced = errors.New("the actor of this name has terminated, and what it had has ended")

// Requesters returns the actors that wait here or hold leases.
func (s *State) Requesters() []lease.Ref {
	var all []lease.Ref
	for _, c := range s.clients {
		all = append(all, c.pid)
	}
	return all
}

// WaitingOf returns the acquire that a Cancel of the actor message API names, or nil if it has been answered.
func (s *State) WaitingOf(pid lease.Ref, id uint64) *wait.Request {
	if c := s.clients[pid.GetId()]; c != nil {
		return c.waiting[id]
	}
	return nil
}
