package wait

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Effect is one thing that the shell has to do for a machine.
type Effect struct {
	Do      EffectKind
	Call    Call
	Request *Request
	Hold    *lease.Hold
	Grant   *lease.Grant
	Actor   lease.Ref
	Channel string
	At      time.Duration
	Err     error
	Event   protocol.Event
	Waiting *protocol.Waiting
}

// EffectKind says what to do.
type EffectKind uint8

// The kinds of effects. The comments name the fields of Effect that are set.
const (
	DoCall     EffectKind = iota // send Call to Redis
	DoAnswer                     // answer Request
	DoForget                     // drop Request: there is nobody to answer
	DoLost                       // Hold has ended without its holder's release
	DoReleased                   // Hold was released because the actor that held it has ended
	DoTellLost                   // send the requester of Hold the message that its lease was lost, because of Err
	DoKeep                       // give Grant to the watchdog
	DoDrop                       // take Grant back from the watchdog
	DoWatch                      // subscribe to Channel
	DoUnwatch                    // unsubscribe from Channel
	DoLinger                     // a grant without holders is kept
	DoUnlinger                   // the grant that was kept without holders has ended, or has a holder again
	DoAlarm                      // set the timer to At
	DoGuard                      // watch Actor, to learn of its end
	DoUnguard                    // stop watching Actor
	DoEmit                       // report Event
	DoReport                     // report that Request has waited long; Waiting has the details
	DoRequeue                    // for a group: Request needs another member
)

// Call is a script call that a machine asks for.
type Call interface {
	ScriptCall(site *scripts.Site, at ServerTime) scripts.Call
	Carrier() *rpc.Call // the call in flight: the machine sets its timing, the shell the rest
	// Answered turns a raw result into a message for the machine, and into a message for the actors that the same name has in other families;
	// nil: these get no message.
	Answered(m *rpc.Result) (message, news any)
	Recycle() // called when the machine has handled the result, and neither gateway nor shell refers to the call any more: it may be reused
}

// ServerTime converts an instant of this process to the time, in milliseconds, of the server that decides about a key. That time is not known
// before the server was asked for it.
type ServerTime func(raw string, instant time.Duration) (ms int64, known bool)
