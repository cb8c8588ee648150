package wait

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Effect is one thing that the shell has to do.
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
}

// EffectKind is what to do.
type EffectKind uint8

// The effects, and the fields of an Effect that they read.
const (
	DoCall     EffectKind = iota // send Call to Redis
	DoAnswer                     // answer Request
	DoForget                     // nobody is left to answer Request to
	DoTellLost                   // tell Hold's requester that it was lost
	DoKeep                       // give Grant to the watchdog
	DoDrop                       // take it back
	DoWatch                      // subscribe to Channel
	DoUnwatch                    // and no more
	DoAlarm                      // set the timer to At
	DoGuard                      // watch Actor
	DoUnguard                    // and no more
	DoEmit                       // report Event
	DoRequeue                    // to its group: Request needs another member
	DoStop                       // stop this actor: nothing is left
	DoStay                       // tell the router that this actor is in use
)

// Call is a script call that a machine asks for.
type Call interface {
	ScriptCall(site *scripts.Site, at ServerTime) scripts.Call
	Carrier() *rpc.Call // the call on its way: the machine sets its timing, the shell the rest
	Acquires() bool     // it makes a grant, which replicas may have to acknowledge
	// Answered turns a raw result into the message that the machine understands, and into what the actors of the same name's other kinds
	// should know; nil: nothing.
	Answered(m *rpc.Result) (message, news any)
	Recycle() // the machine does not know it any more
}

// ServerTime is the clock of the server that decides about a key, at an instant of ours, in milliseconds; not known before it has been asked.
type ServerTime func(raw string, instant time.Duration) (ms int64, known bool)
