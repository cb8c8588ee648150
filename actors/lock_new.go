package actors

import (
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// newLock is the machine of a lock: of one with several contenders or grants at a time, or with one of each.
func newLock(policy *wait.Policy, address *lease.Address) wait.Machine {
	if address.Kind.Many() {
		many := &hall{}
		many.init(policy, address)
		return many
	}
	one := &lockState{}
	one.init(policy, address)
	return one
}
