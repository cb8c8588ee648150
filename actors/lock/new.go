package lock

import (
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// New makes the machine of a lock: a Group if the lock may have several contenders or grants at a time, otherwise a State.
func New(policy *wait.Policy, address *lease.Address) wait.Machine {
	if address.Kind.Many() {
		many := &Group{}
		many.init(policy, address)
		return many
	}
	one := &State{}
	one.init(policy, address)
	return one
}
