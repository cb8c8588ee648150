package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/mailbox"
)

// porter filters the messages to a front. Users know the PIDs of the fronts, and of no other actor of the engine. So a front may get any message, and
// porter drops those that would make protoactor stop the front. When the front has stopped, porter answers requests with ErrClosed. Without porter,
// protoactor would drop these requests, and the requesters would wait for ever.
type porter struct {
	actor.MessageInvoker
	front *front
}

// porterMailbox is the mailbox of a front.
type porterMailbox struct {
	mailbox.Mailbox
	front *front
}

// RegisterHandlers places the porter between the mailbox and the front. It is called once, before the first message.
func (m *porterMailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(porter{invoker, m.front}, dispatcher)
}

// InvokeSystemMessage drops a Stop unless the engine is ending.
func (p porter) InvokeSystemMessage(message any) {
	if _, stop := message.(*actor.Stop); stop && !p.front.engine.ending.Load() {
		p.front.engine.api.Drop("", "a lock's actor cannot be stopped: close the runtime")
		return
	}
	p.MessageInvoker.InvokeSystemMessage(message)
}

// InvokeUserMessage drops messages on which protoactor itself would act, and answers messages to a stopped front.
func (p porter) InvokeUserMessage(message any) {
	_, content, sender := actor.UnwrapEnvelope(message)
	switch {
	case isCommand(content):
		p.front.engine.api.Drop("", fmt.Sprintf("unknown message %T", content))
	case p.front.stopped:
		p.front.engine.api.TurnAway(content, sender)
	default:
		p.MessageInvoker.InvokeUserMessage(message)
	}
}

// isCommand recognizes the messages that protoactor itself acts on. With such a message a sender could stop the actor, make protoactor treat it as
// stopped, or run a method of the message on the actor's goroutine. protoactor's own messages of these types do not arrive as user messages.
func isCommand(message any) bool {
	switch message.(type) {
	case actor.AutoReceiveMessage, actor.SystemMessage, actor.AutoRespond:
		return true
	}
	return false
}
