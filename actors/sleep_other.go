//go:build !linux

package actors

import "time"

// suspended: what was lost in a suspension shows at the next renewal here.
var suspended func() time.Duration
