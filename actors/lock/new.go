package lock

import (
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// New is the machine of a lock: of one with several contenders or grants at a time, or with one of each.
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
