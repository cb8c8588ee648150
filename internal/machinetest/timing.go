package machinetest

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
)

// CheckTiming returns an error if a call has no time left to be sent or executed, or if its field Asked is an instant in the future.
func CheckTiming(now time.Duration, t *rpc.Timing) error {
	if notAfter := t.Latest(now); t.Asked > now || notAfter <= now || t.Expires(0) <= now {
		return fmt.Errorf("a call without time: %+v", *t)
	}
	return nil
}
