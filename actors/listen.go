package actors

import "github.com/holdfast-go/holdfast/actors/pubsub"

// Listen calls notify for each message of a channel, until stop is called. It also calls notify after each new subscription, because messages may
// have been lost while there was no subscription. notify must not block. The parameter `name` is the name of a lock, for events about the
// subscription.
func (e *Engine) Listen(channel, name string, notify func()) (stop func()) {
	l := &listener{notify}
	e.tellSubscriber(pubsub.Subscribe{Channel: channel, Name: name, Who: l})
	return func() { e.tellSubscriber(pubsub.Unsubscribe{Channel: channel, Who: l}) }
}

// tellSubscriber sends the subscriber a message, unless the runtime is closed. In a closed runtime the subscriber may have stopped, and the
// subscriptions no longer matter.
func (e *Engine) tellSubscriber(message any) {
	select {
	case <-e.Closing():
	default:
		e.root.Send(e.subscriber, message)
	}
}

type listener struct{ notify func() }

// Send is called for each message.
func (l *listener) Send(any) { l.notify() }
