//go:build !linux

package clock

import "time"

// suspended is nil: on this system, only the next renewal shows which leases were lost in a suspension.
var suspended func() time.Duration
