package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/mailbox"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// porter filters the messages to a router. Users have the PIDs of routers, and of no other actor here, so any message may arrive. porter
// keeps out those that would make protoactor stop the router. When the router has stopped, porter answers requests with ErrClosed, because
// protoactor would drop them and the requesters would wait for ever.
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

// InvokeSystemMessage drops a Stop unless the engine is ending.
func (p porter) InvokeSystemMessage(message any) {
	if _, stop := message.(*actor.Stop); stop && !p.router.engine.ending.Load() {
		p.router.engine.api.Drop("", "a lock's actor cannot be stopped: close the runtime")
		return
	}
	p.MessageInvoker.InvokeSystemMessage(message)
}

// InvokeUserMessage drops messages on which protoactor itself would act, and answers messages to a stopped router.
func (p porter) InvokeUserMessage(message any) {
	if _, ours := message.(*wait.Request); ours && !p.router.stopped { // the usual case, so first
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

// isCommand recognizes a message by which a sender would make protoactor stop the actor, treat it as stopped, or run a method of the
// message on its goroutine. protoactor's own messages of these types do not arrive as user messages.
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
