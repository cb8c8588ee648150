// Package gateway sends the script calls of locks and counters to Redis, many calls in one pipeline. It answers each call exactly once, with a
// Result. The actors of names, the watchdog, the announcer and Engine.Ask submit a *Call, and get its *Result.
//
//	gateway.go          the gateway: the calls in line, the batches in flight, the deadlines
//	line.go             the line of calls that wait to be sent, and the time after which a waiting call expires
//	outage.go           which calls are sent during an outage of Redis, and right after it
//	sender.go           sends a pipeline on the goroutine of a worker or a caller: adds WAIT and a mark at the end, and posts the results
//	batch.go            the calls of one pipeline: packs several calls into one command, and divides the reply among them
//	redirect.go         MOVED and ASK
//	cluster_gateway.go  on a cluster, a gateway for each master
//
// The package knows nothing of leases, waiters and kinds.
package gateway
