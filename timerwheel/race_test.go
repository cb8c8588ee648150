package timerwheel_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/timerwheel"
)

// TestWheel_EveryArmEndsOnce lets goroutines arm and cancel timers of their own, in
// real time, while the function due re-arms some of the timers that it receives. Halfway
// through, the test stops the wheel. A timer that is armed n times must end n times: each
// time it is cancelled, handed over, or returned by Stop.
func TestWheel_EveryArmEndsOnce(t *testing.T) {
	const goroutines, each, rounds = 8, 100, 40
	var armed, cancelled, handed atomic.Int64
	var w *wheel
	var stopped atomic.Bool
	due := func(batch []*timer) {
		if stopped.Load() {
			t.Error("due was called after Stop")
		}
		handed.Add(int64(len(batch)))
		if len(batch)%2 == 0 && w.AddAll(batch, w.Now()+3*ms) {
			armed.Add(int64(len(batch)))
		}
		w.Recycle(batch)
	}
	w, err := timerwheel.New(timerwheel.Options{Width: ms, Slots: 16}, due)
	require.NoError(t, err)

	var done sync.WaitGroup
	halfway := make(chan struct{}, goroutines)
	for g := range goroutines {
		done.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			for round := range rounds {
				if round == rounds/2 {
					halfway <- struct{}{}
				}
				ts := make([]timer, each)
				for i := range ts {
					if w.Add(&ts[i], w.Now()+time.Duration(rng.IntN(40_000))*time.Microsecond) {
						armed.Add(1)
					}
				}
				for _, i := range rng.Perm(each)[:rng.IntN(each)] {
					if w.Cancel(&ts[i]) {
						cancelled.Add(1)
					}
				}
			}
		})
	}
	for range goroutines {
		<-halfway
	}
	rest := w.Stop()
	stopped.Store(true)
	done.Wait()
	require.Equal(t, armed.Load(), cancelled.Load()+handed.Load()+int64(len(rest)))
	require.Zero(t, w.Len())
	require.Nil(t, w.Stop())
}

// TestWheel_SharedTimersStayWhole lets goroutines call all methods for the same few
// timers.
func TestWheel_SharedTimersStayWhole(t *testing.T) {
	const goroutines, rounds = 8, 3000
	var added, ended atomic.Int64
	due := func(batch []*timer) { ended.Add(int64(len(batch))) }
	w, err := timerwheel.New(timerwheel.Options{Width: ms, Slots: 4}, due)
	require.NoError(t, err)
	ts := make([]timer, 64)
	var done sync.WaitGroup
	for g := range goroutines {
		done.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 8))
			for range rounds {
				at := w.Now() + time.Duration(rng.IntN(12)-1)*ms
				x := &ts[rng.IntN(len(ts))]
				switch rng.IntN(8) {
				case 0, 1, 2:
					w.Add(x, at)
					added.Add(1)
				case 3:
					some := []*timer{x, &ts[rng.IntN(len(ts))], x}
					w.AddAll(some, at)
					added.Add(2)
					w.Recycle(some)
				case 4:
					if err := w.Check(); err != nil {
						t.Error(err)
					}
				default:
					if w.Cancel(x) {
						ended.Add(1)
					}
				}
			}
		})
	}
	done.Wait()
	require.NoError(t, w.Check())
	seen := map[*timer]bool{}
	for _, x := range w.Stop() {
		require.False(t, seen[x], "returned twice")
		seen[x] = true
		ended.Add(1)
	}
	require.LessOrEqual(t, ended.Load(), added.Load()) // an Add that moves a timer does not end it
}

// TestStop_NeverHangsAnAdder starts and stops wheels while goroutines arm timers that
// become the first in the driver's queue. A goroutine waits for the driver only when it
// arms such a timer.
func TestStop_NeverHangsAnAdder(t *testing.T) {
	const cycles, adders = 2000, 2
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for cycle := range cycles {
			w, err := timerwheel.New(timerwheel.Options{Width: ms, Slots: 64}, func([]*timer) {})
			if err != nil {
				t.Error(err)
				return
			}
			var done sync.WaitGroup
			under := make(chan struct{}, adders)
			for range adders {
				done.Go(func() {
					ts := make([]timer, 64)
					for i := 0; w.Add(&ts[i%64], w.Now()+time.Duration(63-i%64)*ms); i++ {
						if i == cycle%50 {
							under <- struct{}{}
						}
						runtime.Gosched() // otherwise the goroutine that calls Stop waits for a time slice
					}
				})
			}
			<-under
			w.Stop()
			done.Wait()
		}
	}()
	select {
	case <-finished:
	case <-time.After(time.Minute):
		t.Fatal("Add or Stop hangs")
	}
}
