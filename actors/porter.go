package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/mailbox"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// porter stands between the mailbox of a router and the router. Routers are the only actors here whose PIDs users have, so anything
// may come: what would stop the router stays outside, and who comes after it has stopped is told so. protoactor itself drops what
// comes to a stopped actor, and the requester would wait for ever.
type porter struct {
	actor.MessageInvoker
	router *router
}

// porterMailbox is the mailbox of a router.
type porterMailbox struct {
	mailbox.Mailbox
	router *router
}

// RegisterHandlers is called once, before the first message.
func (m *porterMailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(porter{invoker, m.router}, dispatcher)
}

// InvokeSystemMessage keeps out a Stop that is not the engine's own.
func (p porter) InvokeSystemMessage(message any) {
	if _, stop := message.(*actor.Stop); stop && !p.router.engine.ending.Load() {
		p.router.engine.api.Drop("", "a lock's actor cannot be stopped: close the runtime")
		return
	}
	p.MessageInvoker.InvokeSystemMessage(message)
}

// InvokeUserMessage keeps out what protoactor would act on itself, and all that comes too late.
func (p porter) InvokeUserMessage(message any) {
	if _, ours := message.(*wait.Request); ours && !p.router.stopped { // most are
		p.MessageInvoker.InvokeUserMessage(message)
		return
	}
	_, content, sender := actor.UnwrapEnvelope(message)
	switch {
	case isCommand(content):
		p.router.engine.api.Drop("", fmt.Sprintf("unknown message %T", content))
	case p.router.stopped:
		p.router.turnAway(content, sender)
	default:
		p.MessageInvoker.InvokeUserMessage(message)
	}
}

// isCommand recognizes a message by which a sender would make protoactor stop the actor, or take it for stopped, or run a method
// of the message on its goroutine. What protoactor itself has to say does not come as a user message.
func isCommand(message any) bool {
	switch message.(type) {
	case actor.AutoReceiveMessage, actor.SystemMessage, actor.AutoRespond:
		return true
	}
	return false
}

// turnAway answers for a router that has stopped.
func (r *router) turnAway(message any, sender *actor.PID) {
	if m, ok := message.(*wait.Request); ok {
		r.refuse(m)
		return
	}
	r.engine.api.TurnAway(message, sender)
}
