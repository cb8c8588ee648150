package wait

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
)

// Requesters lists the users' actors that wait for locks of one name, or hold leases of such locks. The machine does not know about actors: it
// handles their requests like those of goroutines. Before the shell passes an actor's acquire to the machine, the shell calls Admit. It calls
// Answered for each answer, and Ended for each lost lease. An actor is listed from its first acquire until its last wait or lease has ended.
//
// The zero value is an empty list.
type Requesters struct {
	all   map[string]*requester  // by the ID of the actor; all actors are in one actor system, so their IDs are unique
	holds map[uint64]*lease.Hold // of all actors, by serial number
}

type requester struct {
	pid   lease.Ref
	waits map[uint64]*Request // acquires without an answer, by the actor's IDs for them
	holds map[uint64]*lease.Hold
}

// Admit lists an acquire. It returns an error if another acquire of the actor waits under the same ID. The result `first` says whether the actor was
// not listed before.
func (q *Requesters) Admit(r *Request) (first bool, err error) {
	a := q.all[r.Requester.GetId()]
	if a == nil {
		if q.all == nil {
			q.all, q.holds = map[string]*requester{}, map[uint64]*lease.Hold{}
		}
		a, first = &requester{r.Requester, map[uint64]*Request{}, map[uint64]*lease.Hold{}}, true
		q.all[r.Requester.GetId()] = a
	}
	if a.waits[r.ID] != nil {
		return false, fmt.Errorf("%w: request ID %d is waiting already", protocol.ErrInvalid, r.ID)
	}
	a.waits[r.ID] = r
	return first, nil
}

// Answered notes the answer to an actor's request. The answer to an acquire ends a wait and, if the acquire was granted, begins a lease. The answer
// to a release ends a lease. If the actor then neither waits nor holds a lease, Answered removes it from the list and returns it. Otherwise
// Answered returns nil.
func (q *Requesters) Answered(r *Request) (done lease.Ref) {
	switch {
	case r.Do == Release && r.Hold != nil:
		return q.Ended(r.Hold)
	case r.Do == Acquire && q.Waiting(r.Requester, r.ID) == r:
		a := q.all[r.Requester.GetId()]
		delete(a.waits, r.ID)
		if h := r.Hold; r.Err == nil {
			h.Requester = r.Requester
			h.Grant.Tended.Store(true)
			a.holds[h.Serial], q.holds[h.Serial] = h, h
		}
		return q.drop(a)
	}
	return nil
}

// Ended notes that a lease has ended. If the actor that held it then neither waits nor holds another lease, Ended removes the actor from the list
// and returns it. Otherwise Ended returns nil.
func (q *Requesters) Ended(h *lease.Hold) (done lease.Ref) {
	if q.holds[h.Serial] != h {
		return nil // the holder was a goroutine, or an actor that has terminated
	}
	a := q.all[h.Requester.GetId()]
	delete(a.holds, h.Serial)
	delete(q.holds, h.Serial)
	return q.drop(a)
}

// drop removes an actor that neither waits nor holds a lease, and returns it. If the actor stays in the list, drop returns nil.
func (q *Requesters) drop(a *requester) lease.Ref {
	if len(a.waits)+len(a.holds) > 0 {
		return nil
	}
	delete(q.all, a.pid.GetId())
	return a.pid
}

// Waiting returns the acquire to which an actor has given this ID, or nil if that acquire has been answered.
func (q *Requesters) Waiting(pid lease.Ref, id uint64) *Request {
	if a := q.all[pid.GetId()]; a != nil {
		return a.waits[id]
	}
	return nil
}

// Hold returns the lease with the serial number that a request names, or nil if no actor holds such a lease. The requester need not be the actor
// that holds the lease.
func (q *Requesters) Hold(r *Request) *lease.Hold {
	if h := q.holds[r.Serial]; h != nil && h.Address().Kind == r.Address.Kind {
		return h
	}
	return nil
}

// All returns the actors.
func (q *Requesters) All() (pids []lease.Ref) {
	for _, a := range q.all {
		pids = append(pids, a.pid)
	}
	return pids
}

// Gone removes a terminated actor from the list, and returns the actor's waits and leases. The caller must end them in the order of the results. The
// newest wait comes first, because the last waiter in Redis' queue can leave at the least cost. The oldest lease comes first.
func (q *Requesters) Gone(pid lease.Ref) (waits []*Request, holds []*lease.Hold) {
	a := q.all[pid.GetId()]
	if a == nil {
		return nil, nil
	}
	delete(q.all, pid.GetId())
	for serial := range a.holds {
		delete(q.holds, serial)
	}
	waits = slices.SortedFunc(maps.Values(a.waits), func(a, b *Request) int {
		return cmp.Or(cmp.Compare(b.Came, a.Came), cmp.Compare(b.ID, a.ID))
	})
	holds = slices.SortedFunc(maps.Values(a.holds), func(a, b *lease.Hold) int { return cmp.Compare(a.Serial, b.Serial) })
	return waits, holds
}
