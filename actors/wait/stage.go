package wait

// Stage is the stage of a runtime's end. Each stage includes the restrictions of the stages before it.
type Stage uint8

// The stages.
const (
	Running  Stage = iota
	Draining       // Shutdown: holders keep their leases, and only holders may acquire again
	Closing        // Close: every lease ends and is released
	Aborting       // nothing is sent to Redis any more
)

// Watch is the state of a subscription to a channel.
type Watch uint8

// The values of Watch.
const (
	Unwatched Watch = iota
	Subscribing
	Subscribed
)
