package machinetest

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
)

// CheckTiming reports a call that has no time to be sent, or to be answered.
func CheckTiming(now time.Duration, t *rpc.Timing) error {
	if notAfter, _ := t.SentAt(now); t.Asked > now || notAfter <= now || t.Expires(0) <= now {
		return fmt.Errorf("a call without time: %+v", *t)
	}
	return nil
}
