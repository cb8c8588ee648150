// Package rpc describes one script call on its way to Redis: when the call may be sent and executed (Timing), how the call is withdrawn, and its
// result. The machines of locks make calls, and their shell (package actors) adds the script. The watchdog makes its calls itself. The gateways
// send the calls, and answer each exactly once unless it was withdrawn. A goroutine that waits for an answer may offer to send the call itself
// (Offer).
package rpc
