package holdfast

import (
	"context"
	"time"
)

// These functions compute the durations of a red lock.
var (
	TryTime  = tryTime
	Validity = validity
)

// EvenOut extends fixed leases in the way that Multi does after it has acquired all members.
func EvenOut(ctx context.Context, fixed time.Duration, leases []*Lease) {
	(&plan{fixed: fixed}).evenOut(ctx, leases)
}
