package lease

import (
	"cmp"
)

// The watchdog's messages to the actor of a name.
type (
	// Due says that the grant's deadline is near, or that renewing it failed.
	Due struct{ Grant *Grant }
	// Gone says that Redis does not have the grant any more.
	Gone struct {
		Grant  *Grant
		reason string // "": a renewal has found it missing
	}
	// CountRequesters asks the shell whether the actors that wait here or hold leases are still there.
	CountRequesters struct{}
)

// Why is the reason, in words.
func (m Gone) Why() string { return cmp.Or(m.reason, GoneReason) }

// GoneReason is the reason if Redis no longer has a grant that should be there.
const GoneReason = "gone from Redis"
