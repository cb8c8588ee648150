//go:build !linux

package clock

import "time"

// suspended: what was lost in a suspension shows at the next renewal here.
var suspended func() time.Duration
