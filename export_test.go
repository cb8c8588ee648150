package holdfast

import (
	"context"
	"time"
)

// The durations of a red lock.
var (
	TryTime  = tryTime
	Validity = validity
)

// EvenOut is what Multi does with fixed leases when it has them all.
func EvenOut(ctx context.Context, fixed time.Duration, leases []*Lease) {
	(&plan{fixed: fixed}).evenOut(ctx, leases)
}
