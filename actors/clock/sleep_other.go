//go:build !linux

package clock

import "time"

// suspended is nil: on this system, the next renewal finds out what a suspension has cost.
var suspended func() time.Duration
