package timerwheel

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/RussellLuo/timingwheel/delayqueue"
)

// driver wakes the wheel when slots begin. Only then does the wheel deliver timers.
type driver interface {
	// after requests one wake-up, for the beginning of the slot with the number tick. The wake-up is
	// never earlier. If the slot has already begun, the wake-up comes at once. The caller must not
	// hold the wheel's mutex.
	after(tick int64)
	// close stops all wake-ups and waits for a running one. It may be called more than once.
	close()
}

// delayQueue drives a wheel with a DelayQueue. A DelayQueue is a heap of instants in milliseconds.
// It sleeps until the earliest instant. Here it contains at most one instant per slot.
//
// DelayQueue has a trap: Offer blocks forever if Poll returns at the wrong moment.
//
//	Offer: the new instant is the first, and Poll sleeps (sleeping: 1 -> 0)
//	Poll:  sees the exit channel closed, returns
//	Offer: sends on wakeupC, which nobody receives any more
//
// So Offer runs under a read lock, and close takes the write lock before it closes the exit channel.
// An Offer then either runs while Poll is still running, or is skipped.
type delayQueue struct {
	// fixed at construction
	width time.Duration
	now   func() time.Duration
	wake  func(tick int64, now time.Duration)
	queue *delayqueue.DelayQueue
	exit  chan struct{}

	running sync.WaitGroup
	newest  atomic.Int64 // the latest instant that clock has returned

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

// poll sleeps until the next instant in the queue, sends the slot of that instant to the goroutine of
// run, and repeats this.
func (d *delayQueue) poll() {
	d.queue.Poll(d.exit, func() int64 { return int64(d.clock() / time.Millisecond) })
}

// run wakes the wheel. It does so in its own goroutine, not in that of poll: a wake-up may call
// d.after, which may block until poll receives from the queue's channel wakeupC.
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

// clock returns the time of d.now, but never an earlier time than it has returned to any goroutine
// before. So if poll has seen a slot begin, the slot has begun for the wheel as well. If the wheel
// could read an earlier time than poll, the slot would not yet have begun for the wheel, and the wheel
// would request the wake-up again. poll would send it at once, and both would repeat this without a
// pause.
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

// after rounds the beginning of the slot up to a whole millisecond. If it rounded down, the wake-up
// would come before the slot begins, and would be useless.
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
