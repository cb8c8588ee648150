package wait

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Machine is the pure part of the actor of a name: messages and time go in, effects come out. The shell carries out the effects. A machine has two
// more inputs: the deadlines of its grants, which the watchdog moves, and its policy, which makes ids and random numbers. Tests set all inputs.
type Machine interface {
	Step(now time.Duration, message any) []Effect
	// Distrust starts over after a panic. If r is not nil, it is the request that was being handled. The machine drops it, because the caller of
	// Distrust answers it.
	Distrust(now time.Duration, r *Request) []Effect
	Idle() bool                               // the actor may stop or get another name
	Room() *[]Effect                          // see Base.Room
	Held() (holds []*lease.Hold, waiting int) // the local leases, and the number of waiters
}

// These messages go to machines. A machine also receives *Request, the results of its calls, and the watchdog's lease.Due and lease.Gone.
type (
	// CancelRequest ends the wait of a request.
	CancelRequest struct {
		Request *Request
		Cause   error
	}
	// Alarm says that the instant set by the last alarm effect has come.
	Alarm struct{}
	// Freed says which grants this process has ended in Redis without asking their holders.
	Freed struct {
		Grants []string
		Reason protocol.LossReason
	}
	// Demanded says that Redis has refused the lock because of this grant: to another process, or to another kind of lock in this process. If the
	// field Freed is set, the message says instead that the grant was released by force.
	Demanded struct {
		Grant string
		Freed bool
	}
	// DemandsMissed says that a Demanded may have been lost, because the runtime was not subscribed to demands for a while.
	DemandsMissed struct{}
	// Close tells a machine that the runtime is ending, and which stage of its end has begun.
	Close struct{ Stage Stage }
	// LookAround asks a machine to check whether Redis still has its grants, because an operation may have ended some of them. The machine checks
	// only the grants with a fixed lease. It need not check the others: their next renewal shows whether Redis still has them.
	LookAround struct{}
)

// The subscriber's messages to the actor of a name.
type (
	// ChannelReady says that the channel is subscribed to. Messages that were published before may have been missed. After a reconnection, Among is
	// the number of channels that share the connection; otherwise it is 0.
	ChannelReady struct {
		Channel string
		Among   int
	}
	// ChannelMessage says that the lock was released, and how often since the last ChannelMessage. Beside is the number of other actors of this
	// process that get the message, too.
	ChannelMessage struct {
		Channel  string
		Releases int
		Beside   int
		Texts    map[string]struct{} // only for the demand channel: its messages, each of which has a grant and the key of the grant's lock
	}
)

// Effect is one thing that the shell has to do for a machine.
type Effect struct {
	Do      EffectKind
	Call    Call
	Request *Request
	Hold    *lease.Hold
	Grant   *lease.Grant
	Channel string
	At      time.Duration
	Event   protocol.Event
	Waiting *protocol.Waiting
	Err     error
}

// EffectKind says what to do.
type EffectKind uint8

// The kinds of effects. The comments name the fields of Effect that are set.
const (
	DoCall     EffectKind = iota // send Call to Redis
	DoAnswer                     // answer Request
	DoLost                       // Hold has ended without its holder's release
	DoKeep                       // give Grant to the watchdog
	DoDrop                       // take Grant back from the watchdog
	DoWatch                      // subscribe to Channel
	DoUnwatch                    // unsubscribe from Channel
	DoLinger                     // a grant without holders is kept
	DoUnlinger                   // the grant that was kept without holders has ended, or has a holder again
	DoAlarm                      // set the timer to At
	DoEmit                       // report Event
	DoReport                     // report that Request has waited long; Waiting has the details
	DoLeave                      // the runtime closes, but Redis has refused a release with Err: the lock stays taken
	DoRequeue                    // another member of the group (lock.Group) must serve Request; only members have this effect
)

// Call is a script call that a machine asks for.
type Call interface {
	ScriptCall(site *scripts.Site, at ServerTime) scripts.Call
	Carrier() *rpc.Call // the call in flight: the machine sets its timing, the shell the rest
	// Answered turns a raw result into two messages: `message` goes to the machine, and `notice` goes to the actors of the same name in other
	// families. If those actors need no message, notice is nil.
	Answered(m *rpc.Result) (message, notice any)
	Recycle() // says that the call may be reused: the machine has handled the result, and neither gateway nor shell refers to the call
}

// ServerTime converts an instant of this process to the time of the server that decides about the key `raw`, in milliseconds. known is false if that
// server has not been asked for its time yet.
type ServerTime func(raw string, instant time.Duration) (ms int64, known bool)

// Stage is the stage of a runtime's end. Each stage includes the restrictions of the stages before it.
type Stage uint8

// The stages.
const (
	Running  Stage = iota
	Draining       // Shutdown: holders keep their leases, and only holders may acquire again
	Closing        // Close: every lease ends and is released
	Aborting       // nothing is sent to Redis any more
)
