package timerwheel_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/timerwheel"
)

func TestTimer_IsSmall(t *testing.T) {
	require.Equal(t, uintptr(24), unsafe.Sizeof(timerwheel.Timer[*int]{}))
}

func TestAddCancel_DoNotAllocate(t *testing.T) {
	w, _, err := timerwheel.NewByHand(timerwheel.Options{Width: ms}, func([]*timer) {})
	require.NoError(t, err)
	ts := make([]timer, 4096)
	for i := range ts { // so that every slot has been used before the measurement
		w.Add(&ts[i], time.Duration(i)*ms/2)
	}
	var x timer
	i := 0
	require.Zero(t, testing.AllocsPerRun(2000, func() {
		i++
		w.Add(&x, time.Duration(i%1000)*ms)
		w.Add(&x, time.Duration(i*7%1000)*ms)
		w.Cancel(&x)
	}))
}

func TestRenewal_DoesNotAllocate(t *testing.T) {
	var now time.Duration
	var w *wheel
	handed := 0
	due := func(batch []*timer) {
		handed += len(batch)
		w.AddAll(batch, now+100*ms)
		w.Recycle(batch)
	}
	o := timerwheel.Options{Width: 10 * ms, Now: func() time.Duration { return now }}
	w, driver, err := timerwheel.NewByHand(o, due)
	require.NoError(t, err)
	ts := make([]timer, 1000)
	for i := range ts {
		w.Add(&ts[i], 10*ms+time.Duration(i%100)*ms)
	}
	slot := func() {
		now += 10 * ms
		driver.Wake(now)
	}
	for range 30 {
		slot()
	}
	require.Zero(t, testing.AllocsPerRun(1000, slot))
	require.Greater(t, handed, 100*900)
	require.Equal(t, len(ts), w.Len())
	require.NoError(t, w.Check())
}

func TestRecycle_ForgetsTimersAndKeepsLittle(t *testing.T) {
	w, _, err := timerwheel.NewByHand(timerwheel.Options{Width: ms}, func([]*timer) {})
	require.NoError(t, err)
	batch := []*timer{{}, {}}
	w.Recycle(batch[:1])
	require.Equal(t, []*timer{nil, nil}, batch)
	w.Recycle(nil)
	w.Recycle(make([]*timer, timerwheel.MaxSpareCap+1))
	require.Equal(t, 1, w.Spares())
	for range 20 {
		w.Recycle(make([]*timer, 1))
	}
	require.Equal(t, timerwheel.MaxSpares, w.Spares())
}

// TestBatch_IsTheConsumers checks that the wheel no longer uses a batch that it has handed over.
func TestBatch_IsTheConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		batches := make(chan []*timer, 100)
		o := timerwheel.Options{Width: 10 * ms, Slots: 8}
		w, err := timerwheel.New(o, func(batch []*timer) { batches <- batch })
		require.NoError(t, err)
		defer w.Stop()
		ts := make([]timer, 30)
		for i := range ts {
			w.Add(&ts[i], time.Duration(i)*10*ms) // one per slot, for four turns
		}
		for i := range ts {
			batch := <-batches
			require.Equal(t, []*timer{&ts[i]}, batch)
			batch = append(batch, batch...) // the consumer may also use the rest of the slice's capacity
			require.NoError(t, w.Check())
			clear(batch)
		}
	})
}

// TestHandedOver_IsNotKeptAlive cancels a timer and lets another one fire, drops
// both, and waits for the garbage collector to find them.
func TestHandedOver_IsNotKeptAlive(t *testing.T) {
	handed := make(chan []*timer)
	w, err := timerwheel.New(timerwheel.Options{Width: ms}, func(b []*timer) { handed <- b })
	require.NoError(t, err)
	defer w.Stop()
	freed := make(chan struct{}, 2)
	for _, cancel := range []bool{true, false} {
		x := &timer{}
		runtime.AddCleanup(x, func(struct{}) { freed <- struct{}{} }, struct{}{})
		if cancel {
			w.Add(x, time.Hour)
			w.Cancel(x)
			continue
		}
		w.Add(x, 0)
		w.Recycle(<-handed)
	}
	n := 0
	for try := 0; n < 2 && try < 500; try++ {
		runtime.GC()
		select {
		case <-freed:
			n++
		case <-time.After(10 * ms):
		}
	}
	require.Equal(t, 2, n)
}
