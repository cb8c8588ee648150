package lease

// The watchdog's messages to the actor of a name.
type (
	// Due asks the machine to watch the grant's deadline: it has come, it is the last one (Grant.Final), or a renewal has failed.
	Due struct{ Grant *Grant }
	// Gone says that Redis does not have the grant any more.
	Gone struct{ Grant *Grant }
	// CountRequesters tells the shell to check whether the actors that wait for the lock or hold leases still exist.
	CountRequesters struct{}
)
