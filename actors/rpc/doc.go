// Package rpc describes one script call on its way to Redis: when it may be sent and executed, how it is withdrawn, and its result. The machines make
// calls, and their shell adds the script; the watchdog makes its calls itself. The gateways send the calls, and answer each exactly once unless it
// was withdrawn.
//
//	call.go    a call and its result
//	offer.go   a goroutine that waits for an answer may send the call itself
//	timing.go  how long a call may wait to be sent, and then for its answer
package rpc
