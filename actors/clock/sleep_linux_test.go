package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// A test cannot suspend the machine. So it checks at least that the gauge reads the right two clocks of the kernel.
func TestSleep_ReadsTheKernelsClocks(t *testing.T) {
	t.Parallel()
	start, before := time.Now(), kernelClock(unix.CLOCK_MONOTONIC)
	assert.GreaterOrEqual(t, kernelClock(unix.CLOCK_BOOTTIME), before)
	<-time.After(10 * time.Millisecond)
	took := time.Since(start)
	assert.GreaterOrEqual(t, kernelClock(unix.CLOCK_MONOTONIC)-before, 10*time.Millisecond)
	assert.GreaterOrEqual(t, took, 10*time.Millisecond)

	first := suspended()
	for range 1000 {
		assert.Less(t, suspended()-first, time.Second, "the machine was not suspended, so only the gap between reading the two clocks may show")
	}
}
