package timerwheel

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/RussellLuo/timingwheel/delayqueue"
)

// driver wakes the wheel. It is all that the wheel knows of the passing of time.
type driver interface {
	// after asks for one wake-up when slot tick has begun, at once if it has, and
	// never before. It must not be called with the wheel's mutex held.
	after(tick int64)
	// close ends all wake-ups, waits for a running one, and may be called again.
	close()
}

// delayQueue drives a wheel with a DelayQueue, a heap of instants in milliseconds
// that sleeps until the first of them. A wheel has at most one instant per slot
// in it.
//
// It has a trap. Offer blocks for good if Poll has returned:
//
//	Offer: the new instant is the first, and Poll sleeps (sleeping: 1 -> 0)
//	Poll:  sees the exit channel closed, returns
//	Offer: sends on wakeupC, which nobody receives any more
//
// So Offer runs under a read lock, and close takes the write lock before it closes
// the exit channel: every Offer then finds Poll alive, or is not made.
type delayQueue struct {
	// fixed at construction
	width time.Duration
	now   func() time.Duration
	wake  func(tick int64, now time.Duration)
	queue *delayqueue.DelayQueue
	exit  chan struct{}

	running sync.WaitGroup
	newest  atomic.Int64 // of all readings of now

	mu     sync.RWMutex
	closed bool // guarded by mu
}

func startDelayQueue(
	width time.Duration, now func() time.Duration, wake func(tick int64, now time.Duration),
) *delayQueue {
	d := &delayQueue{
		width: width,
		now:   now,
		wake:  wake,
		queue: delayqueue.New(32), // first capacity; it cannot grow from 0
		exit:  make(chan struct{}),
	}
	d.running.Go(d.poll)
	d.running.Go(d.run)
	return d
}

// poll waits for the next instant, again and again, and feeds run.
func (d *delayQueue) poll() {
	d.queue.Poll(d.exit, func() int64 { return int64(d.clock() / time.Millisecond) })
}

// run wakes the wheel. It is a goroutine of its own because the wheel and its
// consumer may call after meanwhile, which needs poll.
func (d *delayQueue) run() {
	for {
		select {
		case <-d.exit:
			return
		case tick := <-d.queue.C:
			d.wake(tick.(int64), d.clock())
		}
	}
}

// clock never goes back, whatever now does, not even between goroutines. So a slot
// that poll found begun has begun for the wheel too. A wake-up that is early for the
// wheel would be asked for again, for an instant that is over for poll, and spin.
func (d *delayQueue) clock() time.Duration {
	for {
		newest := d.newest.Load()
		now := int64(d.now())
		if now <= newest {
			return time.Duration(newest)
		}
		if d.newest.CompareAndSwap(newest, now) {
			return time.Duration(now)
		}
	}
}

// after rounds the begin of the slot up to a whole millisecond: waking before the
// slot has begun would be of no use.
func (d *delayQueue) after(tick int64) {
	begin := time.Duration(tick) * d.width
	instantMS := int64((begin + time.Millisecond - 1) / time.Millisecond)
	d.mu.RLock()
	defer d.mu.RUnlock()
	if !d.closed {
		d.queue.Offer(tick, instantMS)
	}
}

func (d *delayQueue) close() {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.exit)
	}
	d.mu.Unlock()
	d.running.Wait()
}
