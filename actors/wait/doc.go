// Package wait has the parts that the machines of locks and of counters share: requests that wait, when they are tried again, and what goes in
// and comes out of a step. It is pure.
//
// The engine makes requests and carries out the effects of a step; the machines (packages lock and counter) decide. pubsub sends the
// messages about channels.
//
//	spec.go      what an acquire asks for
//	request.go   one operation on a lock, and its answer
//	queue.go     waiting requests, in order of arrival
//	policy.go    the options and fixed times on which the decisions of the machines depend
//	failures.go  consecutive calls that failed, and when the next one is made
//	machine.go   the interface of a machine: the messages that go into a step, and the effects that come out
package wait
