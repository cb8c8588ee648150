package machinetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/scripts"
)

// Script is one call of a script, as the network of a model sees it.
type Script struct {
	Call    *rpc.Call
	Way     time.Duration // the longest time to Redis, or back, without a fault
	Rejects bool          // Redis may refuse it permanently

	// Execute does in the model what the script does in Redis, and returns a function that delivers the script's reply.
	Execute func() (reply func(sent time.Duration))
	// Fail delivers an outcome without a reply.
	Fail func(class scripts.Class, err error, sent time.Duration)
}

// Send sends a script, usually at once. Sometimes Send behaves as if Redis did not answer: then the script first waits in a queue. Like the gateway,
// Send answers every script that was not withdrawn.
func (w *World) Send(s Script) {
	if w.Calm || !w.Chance(w.Faults/3) {
		w.leave(s)
		return
	}
	w.At(min(w.Now+w.UpTo(2*Use), s.Call.Expires(0)), func() {
		switch {
		case w.Now < s.Call.Expires(0):
			w.leave(s)
		case s.Call.Expire(0):
			s.Fail(scripts.Refused, rpc.ErrNotSent, 0)
		}
	})
}

func (w *World) leave(s Script) {
	if s.Call.Leave(w.Now, 0) {
		w.transmit(s)
	}
}

// transmit delivers one answer to a script: the reply or a failure, just after the script's deadline at the latest. Sometimes it delivers that answer
// twice.
func (w *World) transmit(s Script) {
	sent := w.Now + w.UpTo(100*time.Microsecond)
	answered := false
	answer := func(reply func(sent time.Duration)) {
		if answered {
			return
		}
		answered = true
		reply(sent)
		if w.Chance(2) { // it arrives twice
			reply(sent)
		}
	}
	failure := func(class scripts.Class) func() {
		err := errors.New("the model says " + class.String())
		if class != scripts.Rejected {
			err = fmt.Errorf("%w: %w", rpc.ErrNoAnswer, err)
		}
		return func() { answer(func(sent time.Duration) { s.Fail(class, err, sent) }) }
	}
	w.At(s.Call.Deadline+w.UpTo(time.Millisecond), failure(scripts.Unknown))
	way := func() time.Duration { return 50*time.Microsecond + w.UpTo(s.Way) }
	run := func(back time.Duration) func() {
		return func() {
			reply := s.Execute()
			w.After(back, func() { answer(reply) })
		}
	}
	if w.Calm || !w.Chance(w.Faults) {
		w.At(sent+way(), run(way()))
		return
	}
	faults := 6
	if s.Rejects {
		faults++
	}
	switch w.Random.IntN(faults) {
	case 0: // the call is lost
	case 1: // the reply is lost
		w.At(sent+way(), func() { s.Execute() })
	case 2: // the connection breaks; a copy may still be executed, even after the deadline
		w.At(sent+way(), failure(scripts.Unknown))
		w.At(sent+w.UpTo(2*(s.Call.Deadline-w.Now)+time.Millisecond), func() { s.Execute() })
	case 3:
		w.At(sent+way(), failure(scripts.Refused))
	case 4: // slow to Redis
		w.At(sent+w.UpTo(2*Lease), run(way()))
	case 5: // slow back
		w.At(sent+way(), run(w.UpTo(2*Lease)))
	case 6:
		if w.Chance(10) {
			w.Excused = true
			w.At(sent+way(), failure(scripts.Rejected))
		}
	}
}
