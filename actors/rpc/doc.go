// Package rpc describes one script call on its way to Redis: when it may be sent and executed, how it is withdrawn, and its result. The
// machines make calls, and their shell adds the script. The gateways send them and answer each exactly once.
//
//	call.go    a call and its result
//	timing.go  how long a call may wait to be sent, and then for its answer
package rpc
