// Package gateway sends the script calls of locks and counters to Redis, many in one pipeline, and answers each exactly once with a Result.
// The actors of names, the watchdog, the announcer and Engine.Ask submit a *Call, and get its *Result.
//
//	gateway.go          the object: what is in line, what is in flight, deadlines
//	line.go             the calls that wait to be sent, and for how long
//	outage.go           what is sent while Redis does not answer, and right after that
//	sender.go           sends one pipeline, on the goroutine of a worker or a caller: scripts, the mark at its end, WAIT, results
//	batch.go            the calls of one pipeline: packs several calls into one command, and divides the reply among them
//	redirect.go         MOVED and ASK
//	cluster_gateway.go  on a cluster, a gateway for each master
//
// The package knows nothing of leases, waiters and kinds.
package gateway
