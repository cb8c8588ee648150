package lease

// The watchdog's messages to the actor of a name.
type (
	// Due says that the grant's deadline is near, or that renewing it failed.
	Due struct{ Grant *Grant }
	// Gone says that Redis does not have the grant any more.
	Gone struct{ Grant *Grant }
	// CountRequesters asks the shell whether the actors that wait here or hold leases still exist.
	CountRequesters struct{}
)
