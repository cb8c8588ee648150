package holdfast

import (
	"context"
	"time"
)

// What a red lock reckons with.
var (
	TryTime  = tryTime
	Validity = validity
)

// EvenOut is what Multi does with fixed leases when it has them all.
func EvenOut(ctx context.Context, fixed time.Duration, leases []*Lease) {
	(&plan{fixed: fixed}).evenOut(ctx, leases)
}
