package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// zipfS is the exponent of a Zipf naming. The larger it is, the more often the first names are chosen.
const zipfS = 1.1

// stretch is one run of the workload in this process. Its workers acquire and release locks; an acquire with its release is a pair.
type stretch struct {
	ctx     context.Context
	w       *workload.Workload
	child   *child
	waits   *waits
	pairs   []atomic.Int64 // pairs of each worker within the window
	all     atomic.Int64   // pairs, including those that ended after the window
	begun   atomic.Int64   // names of a Fresh naming that have been used
	number  int            // number of this run; with a Fresh naming it is part of each name, so that names are new in each run
	waiting atomic.Int32
	stopped atomic.Bool
	seconds []float64 // pairs/s of each whole second of the window
	shared  []section // the section of each name
	names   []string

	idleSince, longestIdle  atomic.Int64 // of a hot lock: when it became idle, in ns since 1970, and its longest idle time, in ns
	overlaps, errors, stuck atomic.Int32
	first                   atomic.Pointer[error]
}

func (c *child) runPairs(o Order) *Sample {
	w := c.order.Workload
	ctx, cancel := context.WithTimeout(context.Background(), far)
	defer cancel()
	workers := w.Clients * w.Goroutines
	if c.batches != nil {
		workers = c.batches.Lanes()
	}
	c.runs++
	s := &stretch{number: c.runs, ctx: ctx, w: w, child: c, waits: newWaits(workers), pairs: make([]atomic.Int64, workers)}
	s.nameThem(workers)
	before := 0.0
	if w.Naming == workload.Fresh {
		before = heap()
	}
	runtime.GC()

	var group sync.WaitGroup
	begin := make(chan struct{})
	for i := range workers {
		group.Go(func() {
			<-begin
			s.work(i)
		})
	}
	sample := &Sample{Heap: -1}
	allocated := -mallocs()
	time.Sleep(time.Until(time.Unix(0, o.Start)))
	cpu, start := cpuTime(), time.Now()
	s.idleSince.Store(start.UnixNano())
	close(begin)
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	s.watch(time.Duration(o.Window), ended, func() {
		if int(s.waiting.Load()) == workers { // nobody is inside
			s.idle()
		}
		s.stopped.Store(true)
		sample.Elapsed, sample.CPU = int64(time.Since(start)), int64(cpuTime()-cpu)
	}, cancel)
	sample.Allocs = allocated + mallocs()
	if w.Naming == workload.Fresh {
		sample.Heap = heap() - before
	}
	s.sum(sample)
	return sample
}

// watch calls the function `stop` at the end of the window, or earlier if all work is done. It returns when all workers have ended. If the harness
// orders the process to abandon the run, or is gone, watch calls the function `abandon`.
func (s *stretch) watch(window time.Duration, ended <-chan struct{}, stop, abandon func()) {
	over := time.NewTimer(window)
	defer over.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	begun, before, orders := time.Now(), int64(0), s.child.orders
	for running := true; ; {
		select {
		case <-over.C:
			if running {
				running = false
				stop()
			}
		case <-second.C:
			if now, pairs := time.Now(), s.all.Load(); running {
				s.seconds = append(s.seconds, float64(pairs-before)/now.Sub(begun).Seconds())
				begun, before = now, pairs
			}
		case <-ended:
			if running { // all work was done before the end of the window
				stop()
			}
			return
		case <-tick.C:
			s.child.report(Report{Event: Progress, Pairs: s.all.Load(), Waiting: int(s.waiting.Load())})
		case o, open := <-orders:
			if !open {
				orders = nil // a closed channel is always ready
			}
			if !open || o.Do == Abandon {
				abandon()
			}
		}
	}
}

// nameThem makes the names in advance, except those of a Fresh naming.
func (s *stretch) nameThem(workers int) {
	n := 1
	switch s.w.Naming {
	case workload.Distinct:
		n = workers
	case workload.Zipf:
		n = s.w.Names
	case workload.Fresh:
		n = 0
	}
	prefix := s.child.order.Prefix
	if s.w.Naming == workload.Distinct && s.w.Visits == 0 {
		prefix = fmt.Sprintf("%s:%d", prefix, s.child.order.Process)
	}
	for i := range n {
		s.names = append(s.names, s.w.NameOf(prefix, i))
	}
	s.shared = make([]section, n)
}

func (s *stretch) work(i int) {
	if s.child.batches != nil {
		s.workBatches(i)
		return
	}
	client := s.child.clients[i/s.w.Goroutines]
	if s.visits() {
		if i == 0 {
			s.visit(client)
		}
		return
	}
	random := rand.New(rand.NewPCG(uint64(i), uint64(s.child.order.Process)+1))
	zipf := rand.NewZipf(random, zipfS, 1, uint64(max(len(s.names), 2)-1))
	for n := 0; !s.stopped.Load(); n++ {
		kind := s.w.Lock
		if kind == peer.Write && random.Float64() < s.w.Reads {
			kind = peer.Read
		}
		var name string
		var where *section
		switch s.w.Naming {
		case workload.Fresh:
			if s.begun.Add(1) > int64(s.w.Names) {
				return
			}
			name, where = fmt.Sprintf("%s:%d:%d:%d:%d", s.child.order.Prefix, s.child.order.Process, s.number, i, n), new(section)
		case workload.Zipf:
			rank := zipf.Uint64()
			name, where = s.names[rank], &s.shared[rank]
		case workload.Distinct:
			name, where = s.names[i], &s.shared[i]
		default:
			name, where = s.names[0], &s.shared[0]
		}
		if !s.pair(client, i, kind, name, where) {
			return
		}
	}
}

// visits reports whether this process only visits: from time to time it takes one of the first process's locks.
func (s *stretch) visits() bool { return s.w.Visits > 0 && s.child.order.Process == s.w.Processes-1 }

// visit takes one of the locks at each tick, one after the other.
func (s *stretch) visit(client peer.Client) {
	tick := time.NewTicker(s.w.Visits)
	defer tick.Stop()
	for n := 0; !s.stopped.Load(); n++ {
		<-tick.C
		if rank := n % len(s.names); !s.pair(client, 0, s.w.Lock, s.names[rank], &s.shared[rank]) {
			return
		}
	}
}

// pair does one acquire, section and release. It returns false if the acquire was given up.
func (s *stretch) pair(client peer.Client, worker int, kind peer.Kind, name string, where *section) bool {
	s.waiting.Add(1)
	start := time.Now()
	held, err := client.Acquire(s.ctx, kind, name)
	wait := time.Since(start)
	s.waiting.Add(-1)
	if err != nil {
		if s.ctx.Err() != nil {
			s.stuck.Add(1)
			return false
		}
		s.fail(err)
		return true
	}
	s.waits.add(worker, 1, wait)
	s.idle()
	if !where.enter(kind, s.w.Permits) {
		s.overlaps.Add(1)
	}
	s.stay()
	where.leave(kind)
	s.idleSince.Store(time.Now().UnixNano())
	if err := held.Release(s.ctx); err != nil {
		s.fail(err)
		return true
	}
	s.all.Add(1)
	if !s.stopped.Load() {
		s.pairs[worker].Add(1)
	}
	return true
}

// idle is called when a free lock has been acquired. It records how long nobody held the lock, if that is the longest time so far. After the window
// it records nothing.
func (s *stretch) idle() {
	gap := time.Now().UnixNano() - s.idleSince.Load()
	for longest := s.longestIdle.Load(); gap > longest && !s.stopped.Load(); longest = s.longestIdle.Load() {
		s.longestIdle.CompareAndSwap(longest, gap)
	}
}

// stay does the work of the section.
func (s *stretch) stay() {
	if s.child.oracle != nil {
		if alone, err := s.child.oracle.alone(s.ctx); err != nil {
			s.fail(err)
		} else if !alone {
			s.overlaps.Add(1)
		}
	}
	if s.w.Section > 0 {
		time.Sleep(s.w.Section)
	}
}

// fail records an error, and pauses so that a goroutine whose calls all fail does not spin.
func (s *stretch) fail(err error) {
	s.errors.Add(1)
	s.first.CompareAndSwap(nil, &err)
	time.Sleep(10 * time.Millisecond)
}

func (s *stretch) workBatches(lane int) {
	for !s.stopped.Load() {
		err := s.child.batches.Pairs(s.ctx, lane, func(n int, wait time.Duration) {
			s.waits.add(lane, n, wait)
			s.all.Add(int64(n))
			if !s.stopped.Load() {
				s.pairs[lane].Add(int64(n))
			}
		})
		if err != nil {
			s.fail(err)
		}
	}
}

func (s *stretch) sum(sample *Sample) {
	sample.PerClient = make([]int64, max(len(s.child.clients), 1))
	for i := range s.pairs {
		n := s.pairs[i].Load()
		sample.Pairs += n
		sample.PerWorker = append(sample.PerWorker, n)
		if s.child.batches == nil {
			sample.PerClient[i/s.w.Goroutines] += n
		}
	}
	sample.Seconds = s.seconds
	sample.All, sample.Idle = s.all.Load(), s.longestIdle.Load()
	sample.Stuck, sample.Overlaps, sample.Errors = int(s.stuck.Load()), int(s.overlaps.Load()), int(s.errors.Load())
	if err := s.first.Load(); err != nil {
		sample.Error = (*err).Error()
	}
	var err error
	if sample.Waits, err = s.waits.encode(); err != nil {
		sample.Error = err.Error()
	}
}
