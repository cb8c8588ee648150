package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/actors/gateway"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/rpc"
)

// The pause after a failure doubles up to a second, and is a random part of that: those who failed together do not come back together.
func TestPolicy_BackoffGrowsAndHasFullJitter(t *testing.T) {
	t.Parallel()
	p := Policy{Lease: 30 * time.Second}.withTimes()
	for part, jitter := range map[time.Duration]func(time.Duration) time.Duration{
		0: func(time.Duration) time.Duration { return 0 },
		1: func(d time.Duration) time.Duration { return d / 4 },
		4: func(d time.Duration) time.Duration { return d },
	} {
		p.Jitter = jitter
		for failures, step := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000} {
			assert.Equal(t, time.Millisecond+part*step*time.Millisecond/4, p.backoff(failures), "after %d failures", failures)
		}
	}
}

// Those who have reason to try again at the same instant do it over a time that grows with their number, up to half of the time after
// which they would have tried anyway.
func TestPolicy_SpreadsThoseWhoTryAgain(t *testing.T) {
	t.Parallel()
	p := Policy{Lease: 30 * time.Second}.withTimes()
	p.Jitter = func(d time.Duration) time.Duration { return d - 1 }
	for waiters, within := range map[int]time.Duration{0: 0, 1: 100 * time.Microsecond, 2000: 200 * time.Millisecond, 1_000_000: p.PollCap / 2} {
		assert.Equal(t, within, p.spread(waiters), "%d waiters", waiters)
	}
	p.Jitter = func(time.Duration) time.Duration { return 0 }
	assert.Zero(t, p.spread(2000))
}

// No more attempts hang at once than there may be workers that do: however short the lease, a connection is given up before.
func TestPolicy_ReplyWait(t *testing.T) {
	t.Parallel()
	for lease, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond: gateway.Silence,
		time.Second:           4 * time.Second / 3,
		3 * time.Second:       4 * time.Second,
		4 * time.Second:       redisnode.ReplyWait,
		time.Minute:           redisnode.ReplyWait,
	} {
		p := Policy{Lease: lease, AckTimeout: time.Second}
		got := p.replyWait()
		assert.InDelta(t, want, got, 10, lease)
		if got > gateway.Silence {
			assert.LessOrEqual(t, got, gateway.StuckMax*rpc.Window(lease), lease)
		}
		p.AckReplicas = 1
		assert.Equal(t, min(got+p.AckTimeout, redisnode.ReplyWait), p.replyWait(), lease)
	}
}

// However long an outage lasts, the pause between two probes is short beside the lease.
func TestPolicy_ProbesOftenWhereLeasesAreShort(t *testing.T) {
	t.Parallel()
	p := Policy{Lease: 3 * time.Second}.withTimes()
	p.Jitter = func(d time.Duration) time.Duration { return d }
	assert.Equal(t, 100*time.Millisecond, p.pause(20))
}
