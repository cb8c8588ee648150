// Package rpc describes one script call on its way to Redis: when the call may be sent and executed (Timing), how the call is withdrawn, and its
// result. The machine of a lock makes a call, and the machine's shell (package actors) adds the script. The watchdog makes its calls without a shell.
// The gateways send the calls. They answer each call exactly once, unless the call was withdrawn. A goroutine that waits for an answer may offer to
// send the call itself (Offer).
package rpc
