package faults_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/protocol"
)

// The sailors of the storm check the answers to their requests.

// answered removes a request from the open ones; it must be among them.
func (a *sailor) answered(id uint64, right bool) {
	switch m, open := a.open[id]; {
	case !open:
		a.storm.failf(fmt.Sprintf("request %d is answered again", id))
	case !right:
		a.storm.failf(fmt.Sprintf("request %d, %+v, is not answered as it should be", id, m))
	}
	delete(a.open, id)
}

// onGranted records the lease, and keeps it for a while, mostly for a shorter time than the lease lasts.
func (a *sailor) onGranted(c actor.Context, m *protocol.Granted) {
	a.answered(m.ID, true)
	if _, known := a.leases[m.Serial]; known {
		a.storm.failf(fmt.Sprintf("serial %d is given twice", m.Serial))
	}
	a.leases[m.Serial] = ""
	a.storm.take(m)
	d := 5 * time.Millisecond
	if rand.IntN(20) == 0 {
		d = 2 * stormLease
	}
	if rand.IntN(5) == 0 {
		a.later(c, d, prolong{m})
	}
	a.later(c, d, letGo{m})
}

// take records the holder of a lock. The lease of the previous holder must no longer be valid, except for the lock whose key disturbServer deletes.
func (s *storm) take(m *protocol.Granted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.leases++
	before := s.valid[m.Lock]
	if m.Lock != s.locks[0].Name && before != nil && before() && m.Valid() {
		s.errors = append(s.errors, fmt.Sprintf("serial %d of %q is granted while another one is valid", m.Serial, m.Lock))
	}
	s.valid[m.Lock] = m.Valid
}

// onReleased checks the answer to a release. The answer must be an error if the lease was lost before, and only then.
func (a *sailor) onReleased(m *protocol.Released) {
	switch lost := a.leases[m.Serial] == "lost"; {
	case lost && !errors.Is(m.Err, holdfast.ErrNotHeld):
		a.storm.failf(fmt.Sprintf("serial %d was lost, and then released: %v", m.Serial, m.Err))
	case !lost && errors.Is(m.Err, holdfast.ErrNotHeld):
		a.storm.failf(fmt.Sprintf("serial %d was held: %v", m.Serial, m.Err))
	case !lost:
		a.end(m.Serial, "released")
	}
}

// end records how a lease has ended. A lease must end only once.
func (a *sailor) end(serial uint64, how string) {
	switch before, known := a.leases[serial]; {
	case !known:
		a.storm.failf(fmt.Sprintf("serial %d is %s, but it is somebody else's", serial, how))
	case before != "":
		a.storm.failf(fmt.Sprintf("serial %d is %s, and was %s before", serial, how, before))
	}
	a.leases[serial] = how
	if how == "lost" {
		a.storm.mu.Lock()
		defer a.storm.mu.Unlock()
		a.storm.count.lost++
	}
}

// leave ends a sailor. If the sailor has died, another one replaces it, unless the storm is over.
func (a *sailor) leave() {
	if !a.dies {
		a.checkDone()
	}
	if a.dies && !a.storm.over() {
		a.storm.launch(a.rt)
	}
	a.storm.mu.Lock()
	defer a.storm.mu.Unlock()
	delete(a.storm.sailors, a)
	if a.dies {
		a.storm.count.died++
	}
}

// checkDone asserts that a sailor that leaves has no open request and no lease.
func (a *sailor) checkDone() {
	if len(a.open) > 0 {
		a.storm.failf(fmt.Sprintf("%d requests are not answered", len(a.open)))
	}
	for serial, end := range a.leases {
		if end == "" {
			a.storm.failf(fmt.Sprintf("serial %d has not ended", serial))
		}
	}
}
