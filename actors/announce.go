package actors

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/scripts"
)

// announcer keeps a description of this process in Redis, for people who look at its locks. No lock depends on it. After a failed call, the next
// attempt follows soon. Only a refusal is logged, and only the first one.
type announcer struct {
	engine  *Engine
	name    string
	version string

	self     *actor.PID
	begun    time.Duration
	timer    clock.Timer
	inFlight bool          // a call has no answer yet
	refused  bool          // Redis has refused a call, and this has been logged
	done     chan struct{} // nil until the runtime closes; the announcer closes this channel when deleting the announcement has succeeded or failed
}

type (
	announce struct{}                     // it is time to announce
	forget   struct{ done chan struct{} } // the runtime is closing
)

// announcedFor is the time for which Redis keeps the announcement of a process that has died. If Options.Lease is longer, Redis keeps the
// announcement for Options.Lease, because the process's locks may live that long.
const announcedFor = 30 * time.Second

func (a *announcer) keep() time.Duration { return max(announcedFor, a.engine.policy.Lease) }

// Send sends the announcer a message.
func (a *announcer) Send(message any) { a.engine.root.Send(a.self, message) }

// Receive is the actor's only entry.
func (a *announcer) Receive(c actor.Context) {
	defer a.engine.events.RecoverIn("announcer")
	switch m := c.Message().(type) {
	case *actor.Started:
		a.self, a.begun = c.Self(), a.engine.clock.Now()
		a.timer = a.engine.clock.AfterFunc(0, func() { a.Send(announce{}) })
	case announce:
		a.announce()
	case forget:
		a.timer.Stop()
		if a.done = m.done; !a.inFlight {
			a.forget()
		}
	case *rpc.Result:
		a.onResult(m)
	}
}

func (a *announcer) announce() {
	if a.done != nil {
		return
	}
	now := a.engine.clock.Now()
	a.submit(scripts.AnnounceProcess(a.engine.id, a.name, a.version, now-a.begun, a.keep()), rpc.Window(a.keep()))
}

func (a *announcer) forget() { a.submit(scripts.ForgetProcess(a.engine.id), releaseGrace) }

func (a *announcer) submit(call scripts.Call, window time.Duration) {
	a.inFlight = true
	a.engine.renewals.Submit(&rpc.Call{Call: call, Timing: rpc.Hasty(a.engine.clock.Now(), window), From: a, Tag: a.done != nil})
}

func (a *announcer) onResult(m *rpc.Result) {
	a.inFlight = false
	forgetting := m.Call.Tag.(bool)
	switch {
	case forgetting:
		close(a.done)
	case a.done != nil:
		a.forget()
	case m.Class == scripts.Done:
		a.timer.Reset(a.keep() / 3)
	default:
		if m.Class == scripts.Rejected && !a.refused {
			a.refused = true
			a.engine.Warn("holdfast: Redis refuses to store Options.Process", slog.Any("err", scripts.Explain(m.Err)))
		}
		a.timer.Reset(a.keep() / 30)
	}
}

// forgetProcess starts deleting the announcement. The returned channel is closed when the deletion has succeeded or failed. If there is no
// announcement, the channel is closed already.
func (e *Engine) forgetProcess() <-chan struct{} {
	done := make(chan struct{})
	if e.announcer == nil {
		close(done)
	} else {
		e.root.Send(e.announcer, forget{done})
	}
	return done
}

// Process returns Options.Process, the description that this process announces, or "" if there is none.
func (e *Engine) Process() string { return e.process }
