package inner

import (
	"context"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// waits is a histogram of durations. The error of a recorded duration is at most 1/32 of the duration. Recording allocates nothing.
type waits struct {
	counts [64 << subBits]uint64
	n      uint64
	sum    time.Duration
	max    time.Duration
}

const subBits = 5 // 32 buckets per power of two

func (w *waits) add(d time.Duration) {
	w.counts[bucketOf(d)]++
	w.n++
	w.sum += d
	w.max = max(w.max, d)
}

func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

// lowest returns the smallest duration of a bucket.
func lowest(bucket int) time.Duration {
	if bucket < 1<<subBits {
		return time.Duration(bucket)
	}
	shift := bucket>>subBits - 1
	return time.Duration(bucket&(1<<subBits-1)+1<<subBits) << shift
}

func (w *waits) merge(other *waits) {
	for i, n := range other.counts {
		w.counts[i] += n
	}
	w.n += other.n
	w.sum += other.sum
	w.max = max(w.max, other.max)
}

// at returns the quantile q of the waits. For example, about 99 % of the waits are not longer than at(0.99).
func (w *waits) at(q float64) time.Duration {
	rank := uint64(q * float64(w.n))
	for i, n := range w.counts {
		if rank < n {
			return min(lowest(i), w.max)
		}
		rank -= n
	}
	return w.max
}

func (w *waits) mean() time.Duration {
	if w.n == 0 {
		return 0
	}
	return w.sum / time.Duration(w.n)
}

// sample is the result of one measured stretch.
type sample struct {
	pairs   int64 // pairs of an acquire and its release that finished within the stretch
	elapsed time.Duration
	cpu     time.Duration // CPU of this process
	server  time.Duration // CPU of the server until the last recorded pair ended
	scripts int64         // EVALSHA that the server ran until the last recorded pair ended
	allocs  uint64        // heap allocations of this process until the last recorded pair ended
	wait    waits         // how long the acquires waited
}

func (s *sample) rate() float64 { return float64(s.pairs) / s.elapsed.Seconds() }

// The next three figures are averages over all recorded waits, including those of pairs that ended after the stretch.

func (s *sample) scriptsPerPair() float64 { return float64(s.scripts) / float64(max(s.wait.n, 1)) }

func (s *sample) allocsPerPair() float64 { return float64(s.allocs) / float64(max(s.wait.n, 1)) }

func (s *sample) serverPerPair() float64 { return micros(s.server) / float64(max(s.wait.n, 1)) }

// cpuPerPair is in microseconds.
func (s *sample) cpuPerPair() float64 { return micros(s.cpu) / float64(max(s.pairs, 1)) }

// stretch is the state that the goroutines of a load share. It says whether they have to stop, and how many pairs are left to do.
type stretch struct {
	context.Context
	left    atomic.Int64 // pairs left to do, if their number is fixed
	stopped atomic.Bool
	failure atomic.Pointer[error]
}

// take reserves up to n pairs and returns how many it reserved. If it returns 0 or less, the stretch is over.
func (s *stretch) take(n int) int {
	if s.stopped.Load() {
		return 0
	}
	return int(min(int64(n), s.left.Add(-int64(n))+int64(n)))
}

// fail ends the stretch.
func (s *stretch) fail(err error) {
	s.failure.CompareAndSwap(nil, &err)
	s.stopped.Store(true)
}

// worker is one goroutine's part of a stretch.
type worker struct {
	*stretch
	number int
	pairs  int64
	wait   waits
}

// done records n pairs whose acquires took `wait` each. Of a pair that ends after the stretch, done records only the wait. Without these waits,
// which are often long, the contender would look better than it is.
func (w *worker) done(n int, wait time.Duration) {
	for range n {
		w.wait.add(wait)
	}
	if !w.stopped.Load() {
		w.pairs += int64(n)
	}
}

// load is the work of one contender. Each goroutine calls the function `work` once. This function returns when there are no pairs left to take.
type load struct {
	goroutines int
	work       func(w *worker)
}

// measure runs a load for the window or, if the window is 0, for a number of pairs.
func measure(tb testing.TB, l load, window time.Duration, pairs int) *sample {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	s := &stretch{Context: ctx}
	s.left.Store(int64(pairs))
	if window > 0 {
		s.left.Store(1 << 60)
	}
	workers := make([]worker, l.goroutines)
	var group sync.WaitGroup
	begin := make(chan struct{})
	for i := range workers {
		workers[i].stretch, workers[i].number = s, i
		group.Go(func() {
			<-begin
			l.work(&workers[i])
		})
	}
	runtime.GC()
	result := &sample{scripts: -scriptCalls(tb), server: -serverCPU(tb)}
	mallocs := mallocCount()
	result.cpu = -cpuTime(tb)
	start := time.Now()
	close(begin)
	if window > 0 {
		<-time.After(window)
		s.stopped.Store(true)
		result.elapsed = time.Since(start)
		result.cpu += cpuTime(tb)
	}
	group.Wait()
	if window == 0 {
		result.elapsed = time.Since(start)
		result.cpu += cpuTime(tb)
	}
	result.allocs = mallocCount() - mallocs
	result.server += serverCPU(tb)
	result.scripts += scriptCalls(tb)
	if err := s.failure.Load(); err != nil {
		tb.Fatal(*err)
	}
	for i := range workers {
		result.pairs += workers[i].pairs
		result.wait.merge(&workers[i].wait)
	}
	return result
}

// cpuTime returns the CPU time that this process has used so far.
func cpuTime(tb testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func mallocCount() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func TestWaits_QuantilesAreExactToABucket(t *testing.T) {
	var w waits
	for i := 1; i <= 100_000; i++ {
		w.add(time.Duration(i) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 50 * time.Millisecond, 0.99: 99 * time.Millisecond, 1: 100 * time.Millisecond} {
		if got := w.at(q); got > want+time.Microsecond || got < want-want/32 {
			t.Errorf("at(%v) is %v, want about %v", q, got, want)
		}
	}
	for _, d := range []time.Duration{0, 1, 31, 32, 33, 63, 64, 1000, 1<<40 + 12345} {
		if low, next := lowest(bucketOf(d)), lowest(bucketOf(d)+1); d < low || d >= next {
			t.Errorf("%d is in the bucket from %d to %d", d, low, next)
		}
	}
}
