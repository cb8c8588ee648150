package actors

import (
	"cmp"

	"github.com/holdfast-go/holdfast/actors/lease"
)

// The watchdog's messages to the actor of a name.
type (
	// grantDue says that the grant's deadline is near, or that renewing it failed.
	grantDue struct{ grant *lease.Grant }
	// grantGone says that Redis does not have the grant any more.
	grantGone struct {
		grant  *lease.Grant
		reason string // "" when a renewal has found it
	}
	// countRequesters asks the shell whether the actors that wait here or hold leases are still there.
	countRequesters struct{}
)

func (m grantGone) why() string { return cmp.Or(m.reason, goneReason) }
