package timerwheel_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/timerwheel"
)

// holder stands for the object in which a timer is embedded. Its size keeps timers from sharing cache lines.
type holder struct {
	timer timerwheel.Timer[*holder]
	rest  [128 - 24]byte
}

type holderWheel = timerwheel.Wheel[*holder]

// hold arms n timers in random order. Their deadlines are spread over 3.3 s, a third of ten seconds.
// It returns the bytes of heap for each timer, including the timer itself.
func hold(w *holderWheel, n int) (holders []holder, bytesPerTimer float64) {
	var before, after runtime.MemStats
	order := rand.Perm(n)
	runtime.GC()
	runtime.ReadMemStats(&before)
	holders = make([]holder, n)
	for i, place := range order {
		h := &holders[i]
		h.timer.Value = h
		w.Add(&h.timer, 100*ms+time.Duration(place)*(3333*ms)/time.Duration(n))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(order)
	bytes := float64(after.HeapAlloc-before.HeapAlloc)/float64(n) - float64(len(holders[0].rest))
	return holders, bytes
}

// BenchmarkAddCancel arms a timer and cancels it, with n others armed.
func BenchmarkAddCancel(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("armed=%d", n), func(b *testing.B) {
			w, err := timerwheel.New(timerwheel.Options{Width: 50 * ms},
				func([]*timerwheel.Timer[*holder]) {})
			if err != nil {
				b.Fatal(err)
			}
			defer w.Stop()
			holders, _ := hold(w, n)
			var x timerwheel.Timer[*holder]
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.Add(&x, 40*time.Second+time.Duration(i%100)*50*ms)
				w.Cancel(&x)
			}
			runtime.KeepAlive(holders)
		})
	}
}

// BenchmarkAddCancelParallel does the same as BenchmarkAddCancel on all cores at once: it shows what the single mutex costs.
func BenchmarkAddCancelParallel(b *testing.B) {
	w, err := timerwheel.New(timerwheel.Options{Width: 50 * ms}, func([]*timerwheel.Timer[*holder]) {})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var x timerwheel.Timer[*holder]
		for i := 0; pb.Next(); i++ {
			w.Add(&x, 40*time.Second+time.Duration(i%100)*50*ms)
			w.Cancel(&x)
		}
	})
}

// BenchmarkMove moves n armed timers one by one, in mixed order.
func BenchmarkMove(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("armed=%d", n), func(b *testing.B) {
			w, err := timerwheel.New(timerwheel.Options{Width: 50 * ms},
				func([]*timerwheel.Timer[*holder]) {})
			if err != nil {
				b.Fatal(err)
			}
			defer w.Stop()
			holders, _ := hold(w, n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.Add(&holders[i*7919%n].timer, 20*time.Second+time.Duration(i%503)*50*ms)
			}
		})
	}
}

// BenchmarkRenew1M holds a million leases of 10 s, and renews each lease after a third of
// its length. One operation is one slot: the wheel delivers its timers, some 15 000, and
// the function due arms them again. The benchmark itself moves the wheel's clock, so the
// time measured contains no waiting. At 50 ms a slot, 500 us/op are 1 % of a core.
func BenchmarkRenew1M(b *testing.B) {
	const n = 1_000_000
	var now time.Duration
	var w *holderWheel
	renewed := 0
	due := func(batch []*timerwheel.Timer[*holder]) {
		renewed += len(batch)
		w.AddAll(batch, now+3333*ms)
		w.Recycle(batch)
	}
	o := timerwheel.Options{Width: 50 * ms, Now: func() time.Duration { return now }}
	w, driver, err := timerwheel.NewByHand(o, due)
	if err != nil {
		b.Fatal(err)
	}
	holders, bytesPerTimer := hold(w, n)
	slot := func() {
		now = time.Duration(driver.Awaited[0]) * 50 * ms
		driver.Wake(now)
	}
	slices.Sort(driver.Awaited)
	for renewed < n {
		slot()
	}
	renewed = 0
	b.ReportAllocs()
	for b.Loop() {
		slot()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(renewed), "ns/renewal")
	b.ReportMetric(bytesPerTimer, "B/timer")
	runtime.KeepAlive(holders)
}
