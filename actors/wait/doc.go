// Package wait has the parts that the machines of locks and of counters share: requests that wait, when they are tried again, and what goes in
// and comes out of a step. It is pure.
//
// The engine makes requests and carries out the effects of a step; the machines (packages lock and counter) decide. pubsub sends the
// messages about channels.
//
//	spec.go      what an acquire asks for
//	request.go   an operation on a lock, and the place of its answer
//	queue.go     waiting requests, in order of arrival
//	policy.go    the options and times on which decisions depend
//	failures.go  calls without an answer, in a row, and the timing of the next call
//	machine.go   what the shell drives: the messages that go into a step, and the effects that come out
package wait
