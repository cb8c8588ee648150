package actors

import (
	"sync"

	"github.com/holdfast-go/holdfast/actors/counter"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/lock"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// newMachine makes the machine for a name, chosen by the properties of its kind. `previous` is the machine of the actor's previous name, or nil.
func newMachine(e *Engine, m *member, address *lease.Address, previous wait.Machine) wait.Machine {
	policy := &e.policy
	switch kind := address.Kind; {
	case kind.Counting != nil:
		return counter.New(policy, address)
	case kind.Spins:
		policy = &e.spinning
	}
	return lock.New(policy, address, m, previous)
}

// effectBuffers has buffers for the effects of a step. A step needs a buffer only for a moment, so the buffers are reused.
var effectBuffers = sync.Pool{New: func() any { return new([]wait.Effect) }}
