package actors

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Redis counts on while the machine is suspended, so the clock does too.
func TestSystemClock_CountsSuspensions(t *testing.T) {
	t.Parallel()
	var slept atomic.Int64
	slept.Store(int64(5 * time.Hour)) // before this process began
	clock := newSystemClock(func() time.Duration { return time.Duration(slept.Load()) })
	start := time.Now()
	awake := func() time.Duration { return time.Since(start) + time.Second } // more than has passed
	assert.Less(t, clock.Now(), awake())

	slept.Add(int64(10 * time.Minute))
	afterAsking(t, clock)
	assert.Greater(t, clock.Now(), 10*time.Minute)
	assert.Less(t, clock.Now(), 10*time.Minute+awake())

	before := clock.Now()
	slept.Add(-int64(10 * time.Minute)) // an answer that was disturbed: no reason to go back
	afterAsking(t, clock)
	assert.Greater(t, clock.Now(), before)

	slept.Add(int64(30 * time.Minute))
	afterAsking(t, clock)
	assert.Greater(t, clock.Now(), 30*time.Minute)
}

// afterAsking returns when the clock is due to ask the kernel again.
func afterAsking(t *testing.T, c SystemClock) {
	since := time.Duration(c.sleep.asked.Load())
	assert.Eventually(t, func() bool { return time.Since(c.start) > since+askEvery }, time.Second, askEvery)
}

// The kernel is asked rarely: Valid is called again and again by those who are careful.
func TestSystemClock_AsksTheKernelRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		clock := newSystemClock(func() time.Duration { asked++; return 0 })
		before := asked
		for range 1000 {
			clock.Now()
		}
		assert.Equal(t, before, asked)
		<-time.After(askEvery)
		for range 1000 {
			clock.Now()
		}
		assert.Equal(t, before+1, asked)
	})
}

// In a bubble of testing/synctest time is not the kernel's, which has nothing to say there.
func TestSystemClock_FollowsABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := NewSystemClock()
		for range 100 {
			start := clock.Now()
			<-time.After(time.Minute)
			assert.Equal(t, time.Minute, clock.Now()-start)
		}
	})
}

func BenchmarkSystemClock(b *testing.B) {
	clock := NewSystemClock()
	for b.Loop() {
		clock.Now()
	}
}

// Tokens follow the clock that was ahead, while it may matter: a master whose clock is behind takes the place of another.
func TestPeaks_FollowTheClockThatWasAhead(t *testing.T) {
	t.Parallel()
	var p peaks
	var server serverClock
	server.set(time.Hour, 0)
	assert.Equal(t, time.Hour+time.Second, p.time(1, &server, time.Second))
	server.set(time.Hour, 3*time.Second) // another server, three seconds behind
	assert.Equal(t, time.Hour+4*time.Second, p.time(1, &server, 4*time.Second), "the time of the one before")
	assert.Equal(t, time.Hour+time.Second, p.time(2, &server, 4*time.Second), "other keys were never there")
	last := time.Second + peakFor
	assert.Equal(t, time.Hour+last-3*time.Second, p.time(1, &server, last), "only the present one's: it has caught up by now")
	server.set(time.Hour, 0)
	assert.Equal(t, time.Hour+last, p.time(1, &server, last), "a clock that is ahead counts at once")
}
