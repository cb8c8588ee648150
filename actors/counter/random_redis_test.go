package counter

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/scripts"
)

// call sends a script, at once or when it has waited in line for a while because Redis does not answer. It answers the script unless it
// was withdrawn, as the gateway does.
func (w *countWorld) call(c *countCall, answer func(countDone)) {
	if w.Calm || !w.Chance(w.Faults/3) {
		if c.Leave(w.Now, 0) {
			w.send(c, answer)
		}
		return
	}
	w.At(min(w.Now+w.UpTo(2*machinetest.Use), c.Expires(0)), func() {
		switch {
		case w.Now < c.Expires(0):
			if c.Leave(w.Now, 0) {
				w.send(c, answer)
			}
		case c.Expire(0):
			answer(countDone{call: c, class: scripts.Refused, err: rpc.ErrNotSent})
		}
	})
}

// send sends a script and answers exactly once, at its deadline at the latest.
func (w *countWorld) send(c *countCall, answer func(countDone)) {
	sent := w.Now + w.UpTo(100*time.Microsecond)
	answered := false
	give := func(done countDone) {
		if answered {
			return
		}
		answered = true
		done.call, done.sent = c, sent
		answer(done)
		if w.Chance(2) { // heard twice
			answer(done)
		}
	}
	failure := func(class scripts.Class) func() {
		return func() { give(countDone{class: class, err: errors.New("the model says " + class.String())}) }
	}
	w.At(c.Deadline+w.UpTo(time.Millisecond), failure(scripts.Unknown))
	way := func() time.Duration { return 50*time.Microsecond + w.UpTo(time.Millisecond) }
	run := func(reply time.Duration) func() {
		return func() {
			done := w.execute(c)
			w.After(reply, func() { give(done) })
		}
	}
	if w.Calm || !w.Chance(w.Faults) {
		w.At(sent+way(), run(way()))
		return
	}
	switch w.Random.IntN(6) {
	case 0: // lost on its way there
	case 1: // the answer is lost
		w.At(sent+way(), func() { w.execute(c) })
	case 2: // the connection breaks; a copy may still run, even after its time
		w.At(sent+way(), failure(scripts.Unknown))
		w.At(sent+w.UpTo(2*(c.Deadline-w.Now)+time.Millisecond), func() { w.execute(c) })
	case 3:
		w.At(sent+way(), failure(scripts.Refused))
	case 4: // slow there
		w.At(sent+w.UpTo(2*machinetest.Lease), run(way()))
	case 5: // slow back
		w.At(sent+way(), run(w.UpTo(2*machinetest.Lease)))
	}
}

// execute is what the scripts do.
func (w *countWorld) execute(c *countCall) countDone {
	id, t := c.terms.Request, c.terms
	if c.op.Changes && w.Now > c.NotAfter {
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

// take is semaphore_acquire.
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
		if p.subscribed && (w.Calm || !w.Chance(10)) {
			p.post(w.UpTo(2*time.Millisecond), wait.ChannelMessage{})
		}
	}
}
