package actors

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/scripts"
)

// call sends a script and answers exactly once, at its deadline at the latest, as the gateway does.
func (p *proc) call(c *lockCall, answer func(callDone)) {
	w := p.w
	sent := w.now + w.upTo(100*time.Microsecond)
	answered := false
	give := func(done callDone) {
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
		return func() { give(callDone{class: class, err: errors.New("the model says " + class.String())}) }
	}
	w.at(c.deadline+w.upTo(time.Millisecond), failure(scripts.Unknown))
	way := func() time.Duration { return 50*time.Microsecond + w.upTo(w.way) }
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
	switch w.random.IntN(7) {
	case 0: // lost on its way there
	case 1: // the answer is lost
		w.at(sent+way(), func() { w.execute(c) })
	case 2: // the connection breaks; a copy may still run, even after its time
		w.at(sent+way(), failure(scripts.Unknown))
		w.at(sent+w.upTo(2*(c.deadline-w.now)+time.Millisecond), func() { w.execute(c) })
	case 3:
		w.at(sent+way(), failure(scripts.Refused))
	case 4:
		if w.chance(10) {
			w.excused = true
			w.at(sent+way(), failure(scripts.Rejected))
		}
	case 5: // slow there
		w.at(sent+w.upTo(2*modelLease), run(way()))
	case 6: // slow back
		w.at(sent+way(), run(w.upTo(2*modelLease)))
	}
}

// execute is what the scripts do.
func (w *world) execute(c *lockCall) callDone {
	if w.holder != "" && w.now >= w.expires {
		w.holder = ""
	}
	bounded := c.do != callRelease && c.do != callGhost && c.do != callInspect
	if bounded && w.now > c.deadline {
		return callDone{class: scripts.Refused, err: errors.New("LATE 1")}
	}
	done := callDone{class: scripts.Done}
	mine := w.holder == c.grant
	switch c.do {
	case callAcquire:
		if done.acquired.Granted = w.holder == "" || mine; done.acquired.Granted {
			w.take(c)
		} else {
			done.acquired.TTL = w.expires - w.now
		}
	case callPass:
		if done.held = mine || w.holder == c.from; done.held {
			w.take(c)
		}
	case callExtend:
		if done.held = mine; mine {
			w.take(c)
		}
	case callForceRelease:
		if done.held = w.holder != ""; done.held {
			w.removed[w.holder] = true
			w.holder = ""
			done.receivers = w.publish()
		}
	case callRelease, callGhost:
		if done.held = mine; mine {
			w.holder = ""
			done.receivers = w.publish()
		}
	}
	w.logf("Redis %s %s: %v, has %q until %v", c.do.word(), c.grant, done.held || done.acquired.Granted, w.holder, w.expires)
	return done
}

func (w *world) take(c *lockCall) { w.holder, w.expires = c.grant, w.now+c.lease }

func (w *world) publish() (receivers int) {
	for _, p := range w.procs {
		if p.subscribed {
			receivers++
			if w.calm || !w.chance(10) {
				p.post(p.lag+w.upTo(2*w.way), channelMessage{releases: 1})
			}
		}
	}
	return receivers
}

// peer is a process of another make: it takes the lock now and then, and may die with it.
func (w *world) peer() {
	if w.holder == "" || w.now >= w.expires {
		w.holder, w.expires = "peer", w.now+w.upTo(modelLease)
		if w.chance(70) {
			w.after(w.upTo(20*time.Millisecond), func() {
				if w.holder == "peer" {
					w.holder = ""
					w.publish()
				}
			})
		}
	}
	if !w.calm {
		w.after(w.upTo(50*time.Millisecond), w.peer)
	}
}

// remove deletes the key, whoever has it.
func (w *world) remove() {
	w.logf("the key of %q is deleted", w.holder)
	w.removed[w.holder] = true
	w.holder = ""
	if !w.calm {
		w.after(w.upTo(modelUse/2), w.remove)
	}
}
