package actors

import (
	"sync"

	"github.com/holdfast-go/holdfast/actors/counter"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/lock"
	"github.com/holdfast-go/holdfast/actors/wait"
)

func newMachine(policy, spinning *wait.Policy, address *lease.Address) wait.Machine {
	switch kind := address.Kind; {
	case kind.Counting != nil:
		return counter.New(policy, address)
	case kind.Spins:
		policy = spinning
	}
	return lock.New(policy, address)
}

// What a step needs for a moment: it would be a part of what a pair allocates.
var effectBuffers = sync.Pool{New: func() any { return new([]wait.Effect) }}
