// Package rpc is one script call on its way to Redis: when it may be sent and executed, how it is withdrawn, and the result that it is
// answered with. The machines make calls (their shell adds the script), the gateways send them and answer each exactly once.
//
//	call.go    a call and its result
//	timing.go  how long it may wait to be sent, and then for its answer
package rpc
