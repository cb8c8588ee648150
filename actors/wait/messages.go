// Package wait is what the machines of locks and counters have in common about waiting for others.
package wait

// The subscriber's messages to the actor of a name.
type (
	// ChannelReady says that the subscription is in place: what was published before may have been missed. Among is how many channels
	// were subscribed to again together.
	ChannelReady struct {
		Channel string
		Among   int
	}
	// ChannelMessage says that somebody released the lock, and how often since the last one.
	ChannelMessage struct {
		Channel  string
		Releases int
	}
)
