package counter

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/scripts"
)

// call sends a script.
func (w *countWorld) call(c *countCall, answer func(countDone)) {
	give := func(done countDone, sent time.Duration) {
		done.call, done.sent = c, sent
		answer(done)
	}
	w.Send(machinetest.Script{
		Call: &c.Call, Way: time.Millisecond,
		Execute: func() func(sent time.Duration) {
			done := w.execute(c)
			return func(sent time.Duration) { give(done, sent) }
		},
		Fail: func(class scripts.Class, err error, sent time.Duration) {
			give(countDone{class: class, err: err}, sent)
		},
	})
}

// execute does what the scripts do.
func (w *countWorld) execute(c *countCall) countDone {
	id, t := c.terms.Request, c.terms
	misjudged := !w.Calm && w.Chance(w.Faults/10) // the process misjudges the server's clock, so a call that is in time is refused as late
	if c.op.Changes && (w.Now > c.NotAfter || misjudged) {
		return countDone{class: scripts.Refused, err: errors.New("LATE 1")}
	}
	done := countDone{class: scripts.Done}
	before, known := w.results[id]
	known = known && w.Now < before.until
	result := countResult{until: w.Now + t.Keep}
	switch {
	case c.op == scripts.SemaphoreRead:
		done.counted.Number = w.permits
	case c.op == scripts.SemaphoreAcquire.Undo:
		if known {
			w.give(before.taken)
		}
		result.undone = true
		w.results[id] = result
	case c.op == scripts.Forget:
	case known:
		done.counted = scripts.Counted{Number: before.number, Served: before.served}
		if before.undone && c.op.Way == scripts.Take {
			done.counted.Served = make([]bool, len(t.Numbers))
		}
	case c.op.Way == scripts.Take:
		done.counted = w.take(t, &result, id[:1])
		if result.taken > 0 {
			w.results[id] = result
		}
	default:
		if c.op == scripts.SemaphoreRelease {
			w.give(t.Numbers[0])
		} else {
			result.number, result.taken = w.permits, w.permits
			w.permits = 0
		}
		w.results[id] = result
		done.counted.Number = result.number
	}
	for _, other := range t.Answered {
		delete(w.results, other)
	}
	w.Logf("Redis %s %s: %+v, has %d, reserved for %q", c.op.Word, id, done.counted, w.permits, w.want)
	return done
}

func (w *countWorld) give(permits int64) {
	if permits > 0 {
		w.permits += permits
		w.publish()
	}
}

// take does what the script semaphore_acquire does.
func (w *countWorld) take(t scripts.CountTerms, result *countResult, runtime string) (c scripts.Counted) {
	if w.Now >= w.wantEnd {
		w.want = ""
	}
	blocked := len(w.want) == 1 && w.want != runtime
	for _, n := range t.Numbers {
		number := max(n, -n)
		fits := !blocked && result.taken+number <= w.permits
		if fits {
			result.taken += number
		} else if n > 0 {
			blocked = true
		}
		c.Served = append(c.Served, fits)
	}
	w.permits -= result.taken
	result.served = c.Served
	switch {
	case w.want == runtime && (result.taken > 0 || t.Reserve < 0), w.want == "rest "+runtime && t.Reserve < 0 && t.Rest == 0:
		w.want, w.wantEnd = "rest "+runtime, w.Now+t.Rest
		w.publish()
	case result.taken == 0 && t.Reserve > 0 && (w.want == runtime || w.want == ""):
		w.want, w.wantEnd = runtime, w.Now+t.Reserve
		c.Reserved = true
	}
	c.Number = w.permits
	return c
}

func (w *countWorld) publish() {
	for _, p := range w.countProcs {
		for _, channel := range p.Channels() {
			if w.Calm || !w.Chance(10) {
				p.Post(w.UpTo(2*time.Millisecond), wait.ChannelMessage{Channel: channel})
			}
		}
	}
}
