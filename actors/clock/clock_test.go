package clock

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Keys in Redis continue to expire while the machine is suspended, so the clock must count that time.
func TestSystemClock_CountsSuspensions(t *testing.T) {
	t.Parallel()
	var slept atomic.Int64
	slept.Store(int64(5 * time.Hour)) // the machine was suspended for five hours before this process began
	clock := startSystem(func() time.Duration { return time.Duration(slept.Load()) })
	start := time.Now()
	awake := func() time.Duration { return time.Since(start) + time.Second } // more time than has passed since start
	assert.Less(t, clock.Now(), awake())

	slept.Add(int64(10 * time.Minute))
	afterAsking(t, clock)
	assert.Greater(t, clock.Now(), 10*time.Minute)
	assert.Less(t, clock.Now(), 10*time.Minute+awake())

	before := clock.Now()
	slept.Add(-int64(10 * time.Minute)) // a disturbed reading must not set the clock back
	afterAsking(t, clock)
	assert.Greater(t, clock.Now(), before)

	slept.Add(int64(30 * time.Minute))
	afterAsking(t, clock)
	assert.Greater(t, clock.Now(), 30*time.Minute)
}

// afterAsking waits until the next call of Now asks the kernel again.
func afterAsking(t *testing.T, c System) {
	since := time.Duration(c.sleep.asked.Load())
	assert.Eventually(t, func() bool { return time.Since(c.start) > since+askEvery }, time.Second, askEvery)
}

// The state machines use 0 for an instant that is not known, so the clock must never be 0. In a synctest bubble it could be 0, because no time
// passes there between the start and the first reading.
func TestSystemClock_InstantsArePositive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { assert.Positive(t, NewSystem().Now()) })
}

// The kernel is asked rarely, because asking costs two system calls, and careful callers check Valid again and again.
func TestSystemClock_AsksTheKernelRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		clock := startSystem(func() time.Duration { asked++; return 0 })
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

// In a testing/synctest bubble the clock follows the bubble's time, and the kernel's time does not disturb it.
func TestSystemClock_FollowsABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := NewSystem()
		for range 100 {
			start := clock.Now()
			<-time.After(time.Minute)
			assert.Equal(t, time.Minute, clock.Now()-start)
		}
	})
}

func BenchmarkSystemClock(b *testing.B) {
	clock := NewSystem()
	for b.Loop() {
		clock.Now()
	}
}
