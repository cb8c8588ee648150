package actors

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// call sends a script, at once or when it has waited in line for a while because Redis does not answer. It answers the script unless it
// was withdrawn, as the gateway does.
func (w *countWorld) call(c *countCall, answer func(countDone)) {
	if w.calm || !w.chance(w.faults/3) {
		if c.Leave(w.now, 0) {
			w.send(c, answer)
		}
		return
	}
	w.at(min(w.now+w.upTo(2*modelUse), c.Expires(0)), func() {
		switch {
		case w.now < c.Expires(0):
			if c.Leave(w.now, 0) {
				w.send(c, answer)
			}
		case c.Expire(0):
			answer(countDone{call: c, class: scripts.Refused, err: rpc.ErrNotSent})
		}
	})
}

// send sends a script and answers exactly once, at its deadline at the latest.
func (w *countWorld) send(c *countCall, answer func(countDone)) {
	sent := w.now + w.upTo(100*time.Microsecond)
	answered := false
	give := func(done countDone) {
		if answered {
			return
		}
		answered = true
		done.call, done.sent = c, sent
		answer(done)
		if w.chance(2) { // heard twice
			answer(done)
		}
	}
	failure := func(class scripts.Class) func() {
		return func() { give(countDone{class: class, err: errors.New("the model says " + class.String())}) }
	}
	w.at(c.Deadline+w.upTo(time.Millisecond), failure(scripts.Unknown))
	way := func() time.Duration { return 50*time.Microsecond + w.upTo(time.Millisecond) }
	run := func(reply time.Duration) func() {
		return func() {
			done := w.execute(c)
			w.after(reply, func() { give(done) })
		}
	}
	if w.calm || !w.chance(w.faults) {
		w.at(sent+way(), run(way()))
		return
	}
	switch w.random.IntN(6) {
	case 0: // lost on its way there
	case 1: // the answer is lost
		w.at(sent+way(), func() { w.execute(c) })
	case 2: // the connection breaks; a copy may still run, even after its time
		w.at(sent+way(), failure(scripts.Unknown))
		w.at(sent+w.upTo(2*(c.Deadline-w.now)+time.Millisecond), func() { w.execute(c) })
	case 3:
		w.at(sent+way(), failure(scripts.Refused))
	case 4: // slow there
		w.at(sent+w.upTo(2*modelLease), run(way()))
	case 5: // slow back
		w.at(sent+way(), run(w.upTo(2*modelLease)))
	}
}

// execute is what the scripts do.
func (w *countWorld) execute(c *countCall) countDone {
	id, t := c.terms.Request, c.terms
	if c.op.Changes && w.now > c.NotAfter {
		return countDone{class: scripts.Refused, err: errors.New("LATE 1")}
	}
	done := countDone{class: scripts.Done}
	before, known := w.results[id]
	known = known && w.now < before.until
	result := countResult{until: w.now + t.Keep}
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
	w.logf("Redis %s %s: %+v, has %d, reserved for %q", c.op.Word, id, done.counted, w.permits, w.want)
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
	if w.now >= w.wantEnd {
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
		w.want, w.wantEnd = "rest "+runtime, w.now+t.Rest
		w.publish()
	case result.taken == 0 && t.Reserve > 0 && (w.want == runtime || w.want == ""):
		w.want, w.wantEnd = runtime, w.now+t.Reserve
		c.Reserved = true
	}
	c.Number = w.permits
	return c
}

func (w *countWorld) publish() {
	for _, p := range w.countProcs {
		if p.subscribed && (w.calm || !w.chance(10)) {
			p.post(w.upTo(2*time.Millisecond), wait.ChannelMessage{})
		}
	}
}
