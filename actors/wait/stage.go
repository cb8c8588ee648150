package wait

// Stage is how far a runtime has come with its end. Each stage includes those before it.
type Stage uint8

// The stages.
const (
	Running  Stage = iota
	Draining       // Shutdown: holders go on, and nobody else gets in
	Closing        // Close: every lease ends, and is released
	Aborting       // Redis is asked for nothing any more
)

// Watch is whether a channel is subscribed to.
type Watch uint8

// The states of a subscription.
const (
	Unwatched Watch = iota
	Subscribing
	Subscribed
)
