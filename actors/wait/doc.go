// Package wait has the parts that the state machines of locks and of counters share: the requests that wait, the times at which they are tried again,
// the messages that a machine receives and the effects that it returns. The package is pure: it does no I/O, reads no clock and starts no goroutine.
//
// The engine makes requests and carries out the effects; the machines (packages lock and counter) decide. Package pubsub sends the
// messages about channels.
//
//	spec.go           what an acquire asks for
//	request.go        one operation on a lock, and its answer
//	requesters.go     the list of the users' actors that wait or hold leases; the shell uses it
//	queue.go          waiting requests, in order of arrival
//	policy.go         the options and fixed times on which the decisions of the machines depend
//	failures.go       consecutive calls that failed, and when the next one is made
//	machine.go        the interface of a machine: the messages that go into a step, and the effects that come out
//	base.go           what every machine has: the queue, the answers, the effects of a step
//	subscription.go   when a machine is subscribed to its channel
package wait
