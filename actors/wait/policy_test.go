package wait

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The bound of the pause after a failure doubles, up to a second. The pause is a random part of the bound, so that processes that
// failed together do not retry together.
func TestPolicy_BackoffGrowsAndHasFullJitter(t *testing.T) {
	t.Parallel()
	p := Policy{Lease: 30 * time.Second}.WithTimes()
	for part, jitter := range map[time.Duration]func(time.Duration) time.Duration{
		0: func(time.Duration) time.Duration { return 0 },
		1: func(d time.Duration) time.Duration { return d / 4 },
		4: func(d time.Duration) time.Duration { return d },
	} {
		p.Jitter = jitter
		for failures, step := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000} {
			assert.Equal(t, time.Millisecond+part*step*time.Millisecond/4, p.Backoff(failures), "after %d failures", failures)
		}
	}
}

// Waiters that have a reason to try again at the same instant spread their attempts over some time. That time grows with the number of
// waiters, up to half of PollCap.
func TestPolicy_SpreadsThoseWhoTryAgain(t *testing.T) {
	t.Parallel()
	p := Policy{Lease: 30 * time.Second}.WithTimes()
	p.Jitter = func(d time.Duration) time.Duration { return d - 1 }
	for waiters, within := range map[int]time.Duration{0: 0, 1: 100 * time.Microsecond, 2000: 200 * time.Millisecond, 1_000_000: PollCap / 2} {
		assert.Equal(t, within, p.Spread(waiters), "%d waiters", waiters)
	}
	p.Jitter = func(time.Duration) time.Duration { return 0 }
	assert.Zero(t, p.Spread(2000))
}

// However long an outage lasts, the pause between two probes is short compared with the lease.
func TestPolicy_ProbesOftenWhereLeasesAreShort(t *testing.T) {
	t.Parallel()
	p := Policy{Lease: 3 * time.Second}.WithTimes()
	p.Jitter = func(d time.Duration) time.Duration { return d }
	assert.Equal(t, 100*time.Millisecond, p.Pause(20))
}
