package timerwheel_test

import (
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/timerwheel"
)

const ms = time.Millisecond

type (
	timer = timerwheel.Timer[int]
	wheel = timerwheel.Wheel[int]
)

// handed records that a timer was handed to the function due, and when.
type handed struct {
	timer *timer
	when  time.Duration
	batch int // number of the call of due
}

// bench is a wheel in a synctest bubble, with everything that the wheel has handed over.
type bench struct {
	*wheel
	clockReads atomic.Int64 // the driver reads the clock whenever it wakes

	mu    sync.Mutex
	calls int
	log   []handed
}

func newBench(t *testing.T, width time.Duration, slots int) *bench {
	t.Helper()
	b := &bench{}
	start := time.Now()
	now := func() time.Duration {
		b.clockReads.Add(1)
		return time.Since(start)
	}
	w, err := timerwheel.New(timerwheel.Options{Width: width, Slots: slots, Now: now}, b.due)
	require.NoError(t, err)
	b.wheel = w
	t.Cleanup(func() { w.Stop() })
	synctest.Wait() // the driver sleeps
	return b
}

func (b *bench) due(batch []*timer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	b.calls++
	for _, t := range batch {
		b.log = append(b.log, handed{t, now, b.calls})
	}
}

// pass lets d pass, and waits until the wheel is idle.
func (b *bench) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// take returns what has been handed over since the last take.
func (b *bench) take() []handed {
	b.mu.Lock()
	defer b.mu.Unlock()
	log := b.log
	b.log = nil
	return log
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	due := func([]*timer) {}
	for _, c := range []struct {
		name string
		o    timerwheel.Options
		due  func([]*timer)
		want string
	}{
		{"no width", timerwheel.Options{}, due, "timerwheel: Width is 0s, must be at least 1ms"},
		{"narrow", timerwheel.Options{Width: ms - 1}, due, "timerwheel: Width is 999.999\u00b5s, must be at least 1ms"},
		{"slots", timerwheel.Options{Width: ms, Slots: -1}, due, "timerwheel: Slots is -1, must be 0 (for 1024) to 16777216"},
		{"many", timerwheel.Options{Width: ms, Slots: 1<<24 + 1}, due, "timerwheel: Slots is 16777217, must be 0 (for 1024) to 16777216"},
		{"no due", timerwheel.Options{Width: ms}, nil, "timerwheel: due is nil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := timerwheel.New(c.o, c.due)
			require.EqualError(t, err, c.want)
		})
	}
}

func TestNew_RoundsSlotsUpToAPowerOfTwo(t *testing.T) {
	for slots, want := range map[int]int{0: 1024, 1: 2, 2: 2, 3: 4, 512: 512, 1000: 1024, 1025: 2048} {
		w, err := timerwheel.New(timerwheel.Options{Width: ms, Slots: slots}, func([]*timer) {})
		require.NoError(t, err)
		require.Equal(t, want, w.Slots(), "Slots: %d", slots)
		w.Stop()
	}
}

func TestAdd_IsHandedOverAtTheBeginOfItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 50*ms, 64)
		var early, late timer
		require.True(t, b.Add(&early, 100*ms))
		require.True(t, b.Add(&late, 199*ms))
		require.Equal(t, 2, b.Len())
		b.pass(100*ms - 1)
		require.Empty(t, b.take())
		b.pass(1)
		require.Equal(t, []handed{{&early, 100 * ms, 1}}, b.take())
		b.pass(50 * ms)
		require.Equal(t, []handed{{&late, 150 * ms, 2}}, b.take())
		require.Zero(t, b.Len())
	})
}

func TestAdd_PastInstantIsDueAtOnceButNotFromAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 50*ms, 64)
		b.pass(1020 * ms)
		ts := make([]timer, 5)
		b.mu.Lock() // due needs this mutex: if Add called due, this would hang
		for i, at := range []time.Duration{math.MinInt64, 0, 970 * ms, 1010 * ms, 1049 * ms} {
			require.True(t, b.Add(&ts[i], at))
		}
		b.mu.Unlock()
		b.pass(0)
		log := b.take()
		require.Len(t, log, 5)
		for _, h := range log {
			require.Equal(t, 1020*ms, h.when)
		}
	})
}

func TestAdd_MovesAnArmedTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10*ms, 64)
		var sooner, later, same timer
		b.Add(&sooner, 300*ms)
		b.Add(&later, 100*ms)
		b.Add(&same, 200*ms)
		b.Add(&sooner, 100*ms)
		b.Add(&later, 300*ms)
		b.Add(&same, 205*ms)
		require.Equal(t, 3, b.Len())
		b.pass(time.Second)
		require.Equal(t, []handed{{&sooner, 100 * ms, 1}, {&same, 200 * ms, 2}, {&later, 300 * ms, 3}}, b.take())
	})
}

func TestAdd_FarDeadlinesStayExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10*ms, 8) // one turn is 80 ms
		ts := make([]timer, 200)
		for i := range ts {
			require.True(t, b.Add(&ts[i], time.Duration(i)*37*ms))
		}
		var forever timer
		require.True(t, b.Add(&forever, math.MaxInt64))
		b.pass(10 * time.Second)
		log := b.take()
		require.Len(t, log, len(ts))
		for i, h := range log {
			require.Same(t, &ts[i], h.timer)
			require.Equal(t, (time.Duration(i) * 37 * ms).Truncate(10*ms), h.when)
		}
		require.Equal(t, 1, b.Len())
		require.True(t, b.Cancel(&forever))
	})
}

func TestAdd_AfterALongIdleTimeFindsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10*ms, 8)
		var x timer
		for i := range 50 {
			b.pass(time.Duration(i) * 1009 * ms)
			at := b.Now() + time.Duration(i)*ms
			before := b.clockReads.Load()
			b.Add(&x, at)
			b.pass(400 * ms)
			require.LessOrEqual(t, b.clockReads.Load()-before, int64(7), "the wheel woke up more than once")
			log := b.take()
			require.Len(t, log, 1)
			require.Less(t, at-log[0].when, 10*ms)
			require.LessOrEqual(t, log[0].when-at, 1*ms)
		}
	})
}

func TestAddAll_HandsAWholeSlotOverInOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 50*ms, 64)
		ts := make([]timer, 3000)
		all := make([]*timer, len(ts))
		for i := range ts {
			all[i] = &ts[i]
		}
		b.Add(all[7], 900*ms)
		require.True(t, b.AddAll(all, 420*ms))
		require.True(t, b.AddAll(nil, 0))
		all[0] = nil // the slice is ours
		require.Equal(t, len(ts), b.Len())
		b.pass(time.Second)
		log := b.take()
		require.Len(t, log, len(ts))
		for _, h := range log {
			require.Equal(t, 1, h.batch)
			require.Equal(t, 400*ms, h.when)
		}
	})
}

func TestCancel_TellsWhetherDueWillSeeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10*ms, 64)
		var never, cancelled, fired timer
		b.Add(&cancelled, 100*ms)
		b.Add(&fired, 100*ms)
		require.False(t, b.Cancel(&never))
		require.True(t, b.Cancel(&cancelled))
		require.False(t, b.Cancel(&cancelled))
		b.pass(time.Second)
		require.Equal(t, []handed{{&fired, 100 * ms, 1}}, b.take())
		require.False(t, b.Cancel(&fired))
		require.True(t, b.Add(&fired, 2*time.Second))
		require.True(t, b.Cancel(&fired))
	})
}

func TestWheel_NeverWakesWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10*ms, 64)
		idle := func(what string) {
			before := b.clockReads.Load()
			b.pass(24 * time.Hour)
			require.Equal(t, before, b.clockReads.Load(), what)
		}
		idle("never used")
		var x timer
		b.Add(&x, b.Now()+100*ms)
		b.pass(time.Second)
		require.Len(t, b.take(), 1)
		idle("all handed over")

		// A cancelled timer leaves one wake-up behind for its slot, and no more.
		before, now := b.clockReads.Load(), b.Now()
		for i := range 1000 {
			b.Add(&x, now+time.Duration(50+i%20)*ms)
			b.Cancel(&x)
		}
		b.pass(time.Second)
		require.LessOrEqual(t, b.clockReads.Load()-before, int64(12)) // 2 slots or 3
		idle("all cancelled")
	})
}

func TestWheel_WakesOncePerSlotNotPerTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 50*ms, 64)
		before := b.clockReads.Load()
		ts := make([]timer, 10_000)
		for i := range ts {
			b.Add(&ts[i], time.Duration(50+i%1000)*ms)
		}
		b.pass(2 * time.Second)
		require.Len(t, b.take(), len(ts))
		// There are 20 slots. For each, the clock is read four times: after the time-out, for the delivery, before the next sleep, and in due.
		require.LessOrEqual(t, b.clockReads.Load()-before, int64(20*4+2))
		require.Equal(t, 20, b.calls)
	})
}

func TestWheel_ClockThatGoesBackDoesNotMakeItSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Only the method Poll of the driver's queue reads the true time. All other readings are 50
		// ms behind, so for the wheel the slot has not begun yet.
		var reads atomic.Int64
		start := time.Now()
		now := func() time.Duration {
			reads.Add(1)
			since := time.Since(start)
			if since < 200*ms && !strings.Contains(string(debug.Stack()), "DelayQueue).Poll(") {
				since -= 50 * ms
			}
			return max(since, 0)
		}
		fired := make(chan time.Duration, 1)
		due := func([]*timer) { fired <- time.Since(start) }
		w, err := timerwheel.New(timerwheel.Options{Width: 10 * ms, Now: now}, due)
		require.NoError(t, err)
		defer w.Stop()
		var x timer
		w.Add(&x, 100*ms)
		require.Equal(t, 100*ms, <-fired)
		require.Less(t, reads.Load(), int64(10))
	})
}

func TestWheel_TakesReadingsOfTheClockInAnyOrder(t *testing.T) {
	now := 80 * ms
	var got []*timer
	due := func(batch []*timer) { got = append(got, batch...) }
	o := timerwheel.Options{Width: 10 * ms, Slots: 4, Now: func() time.Duration { return now }}
	w, driver, err := timerwheel.NewByHand(o, due)
	require.NoError(t, err)
	ts := make([]timer, 3)
	w.Add(&ts[0], 90*ms)
	now = 100 * ms
	w.Add(&ts[1], time.Hour) // reads the clock; the timer is put in the slot of 130 ms
	driver.Wake(90 * ms)     // a stale reading: the driver read the clock before this Add did
	require.Equal(t, []*timer{&ts[0]}, got)
	w.Add(&ts[2], 90*ms) // the timer must not join the slot of 130 ms, which has the same index
	require.Equal(t, []int64{13, 10}, driver.Awaited)
}

// The clock may jump forward while the driver sleeps. If a timer is armed after the jump, the wheel learns of the jump before the driver does. Wake
// then still delivers what has become due.
func TestWake_AfterAJumpOfTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var jump atomic.Int64
		start, delivered := time.Now(), make(chan *timer, 10)
		w, err := timerwheel.New(timerwheel.Options{
			Width: time.Second, Slots: 16, Now: func() time.Duration { return time.Since(start) + time.Duration(jump.Load()) },
		}, func(batch []*timer) {
			for _, due := range batch {
				delivered <- due
			}
		})
		require.NoError(t, err)
		defer w.Stop()
		var far, near, nudge timer
		w.Add(&far, 15*time.Second)
		synctest.Wait()
		jump.Store(int64(time.Hour))
		w.Add(&near, w.Now()+2*time.Second)
		w.Add(&nudge, 0)
		w.Wake()
		synctest.Wait()
		require.Len(t, delivered, 2, "the far timer, and the nudge")
	})
}

func TestStop_ReturnsExactlyTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10*ms, 16)
		ts := make([]timer, 100)
		rest := map[*timer]bool{}
		for i := range ts {
			b.Add(&ts[i], time.Duration(i+1)*10*ms) // also beyond a turn
			rest[&ts[i]] = true
		}
		for i := 0; i < len(ts); i += 7 {
			require.True(t, b.Cancel(&ts[i]))
			delete(rest, &ts[i])
		}
		b.pass(305 * ms)
		for _, h := range b.take() {
			require.True(t, rest[h.timer])
			delete(rest, h.timer)
		}
		got := b.Stop()
		require.Len(t, got, len(rest))
		for _, x := range got {
			require.True(t, rest[x])
			delete(rest, x)
			require.False(t, b.Cancel(x))
		}
		require.Empty(t, rest)
		require.Nil(t, b.Stop())
		require.False(t, b.Add(&ts[0], 0))
		require.False(t, b.AddAll([]*timer{&ts[0]}, 0))
		b.Recycle(got)
		require.Zero(t, b.Len())
		b.pass(time.Hour)
		require.Empty(t, b.take())
	})
}

func TestStop_TimersCanBeArmedInAnotherWheel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newBench(t, 10*ms, 16), newBench(t, 10*ms, 16)
		var x timer
		one.Add(&x, 70*ms)
		for _, left := range one.Stop() {
			require.True(t, two.Add(left, 70*ms))
		}
		two.pass(time.Second)
		require.Equal(t, []handed{{&x, 70 * ms, 1}}, two.take())
	})
}

func TestStop_WaitsForDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}), make(chan struct{})
		w, err := timerwheel.New(timerwheel.Options{Width: ms}, func([]*timer) {
			close(entered)
			<-leave
		})
		require.NoError(t, err)
		ts := make([]timer, 2)
		w.Add(&ts[0], 1*ms)
		<-entered
		w.Add(&ts[1], 1*ms) // would be next
		var stopped atomic.Int32
		for range 2 {
			go func() {
				w.Stop()
				stopped.Add(1)
			}()
		}
		synctest.Wait()
		require.Zero(t, stopped.Load())
		close(leave)
		synctest.Wait()
		require.Equal(t, int32(2), stopped.Load())
	})
}

func TestDue_MayCallTheWheel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *wheel
		rounds := 0
		w, err := timerwheel.New(timerwheel.Options{Width: 10 * ms, Slots: 16}, func(batch []*timer) {
			rounds++
			require.Len(t, batch, 2)
			require.False(t, w.Cancel(batch[0]))
			require.True(t, w.AddAll(batch, w.Now()+100*ms))
			require.Equal(t, 2, w.Len())
			w.Recycle(batch)
		})
		require.NoError(t, err)
		ts := make([]timer, 2)
		w.AddAll([]*timer{&ts[0], &ts[1]}, 0)
		<-time.After(1001 * ms)
		require.Len(t, w.Stop(), 2)
		require.Equal(t, 11, rounds)
	})
}
