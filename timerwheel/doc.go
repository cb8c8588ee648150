// Package timerwheel is a hashed timer wheel for very many timers that are
// nearly all re-armed or cancelled before they matter: leases to renew, sessions
// to expire, requests to time out.
//
// The algorithm is the hashed wheel of Varghese and Lauck ("Hashed and
// Hierarchical Timing Wheels", 1987, scheme 6), known from Netty's
// HashedWheelTimer: a ring of slots, each [Options.Width] of time wide. A timer
// sits in the slot of its deadline, so arming and cancelling are O(1), whatever
// else is armed. Three things differ from Netty's:
//
//   - A slot is handed over whole. One call of due brings every timer of a slot,
//     which is what a consumer wants that renews leases in batches.
//   - Nothing ticks. The wheel wakes for slots in use only; an empty wheel never.
//   - Expiry rounds down. Netty is never early, this wheel is up to one Width
//     early and late only by what the driver and the scheduler add. That suits
//     work that must be done before an instant, like a renewal.
//
// # Time
//
// Instants are durations on a monotonic clock, [Wheel.Now]; a step of the wall
// clock moves nothing. Slots begin at multiples of Width. The driver counts in
// milliseconds and rounds up, once for the begin of a slot (nothing, if Width is in
// whole milliseconds) and once for its sleep, each time by less than 1 ms:
//
//	deadline - Width  <  handed over  <  deadline + 2 ms + scheduling
//
// A deadline in a slot that has already begun is due at once: due is called at
// the driver's next wake-up, never by the goroutine that armed the timer.
//
// A turn of the wheel is Slots * Width. A deadline more than a turn away waits in
// the last slot within reach and is placed again when that comes, once in a turn.
// It stays exact, but costs a visit; choose Slots so that usual delays fit into
// one turn (50 ms * 1024 slots = 51 s).
//
// # Cost
//
// A timer costs its Value, 16 bytes, and 8 to 10 bytes for its place in a slot.
// Arming and cancelling allocate nothing in the steady state. The driver
// allocates a few small objects per slot that it wakes for, not per timer. A
// wheel runs two goroutines, which [Wheel.Stop] ends; share a wheel rather than
// make many.
//
// One mutex guards the whole wheel. On a machine with two cores, arming and cancelling
// a timer took 30 ns, and 40 with both cores at it; with a mutex per slot it was 50 and
// 53, because moving a timer needs two of them. The mutex is held for a whole slot while
// that is handed over or armed by [Wheel.AddAll], some 20 ns per timer of the slot.
package timerwheel
