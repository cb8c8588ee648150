// Package timerwheel is a hashed timer wheel for very many timers, nearly all of which are
// re-armed or cancelled before they fire: leases to renew, sessions to expire, requests to time
// out.
//
// The algorithm is the hashed wheel of Varghese and Lauck ("Hashed and Hierarchical Timing
// Wheels", 1987, scheme 6), known from Netty's HashedWheelTimer: a ring of slots, each
// [Options.Width] wide. A timer is stored in the slot of its deadline, so arming and cancelling
// are O(1), regardless of the number of timers. There are three differences from Netty's wheel:
//
//   - A slot is delivered as a whole. One call of due, the function given to [New], receives all
//     timers of a slot, which suits a consumer that renews leases in batches.
//   - There is no tick. The wheel wakes up once for each slot in which a timer was armed, even
//     if all timers of the slot have been cancelled. Without such slots it never wakes up.
//   - Expiry rounds down. Netty's timers are never early. Here they are up to one Width early.
//     They are late only by the delays of the scheduler and of the driver (the goroutines that
//     wake the wheel). Rounding down suits work with a deadline, such as a renewal.
//
// # Time
//
// Instants are durations on a monotonic clock, [Wheel.Now]; a step of the wall clock has no effect.
// Slots begin at multiples of Width. The driver counts in whole milliseconds, so it rounds up twice:
// the beginning of a slot (if Width is not a whole number of milliseconds), and the time to sleep.
// Each rounding adds less than 1 ms. So a timer is delivered within these bounds:
//
//	deadline - Width  <  delivered  <  deadline + 2 ms + scheduling
//
// A timer whose slot has already begun is delivered at once, but not by the goroutine that arms the
// timer: the driver wakes up and calls due.
//
// A turn of the wheel is Slots * Width. A timer with a deadline more than a turn away first waits in
// the last slot of the present turn. When that slot begins, the wheel places the timer again, and it
// does so once per turn until the deadline is less than a turn away. This costs a little time per
// turn, but the timer stays exact. Choose Slots so that usual delays fit into one turn (50 ms * 1024
// slots = 51 s).
//
// # Cost
//
// Besides its Value, a timer takes up 16 bytes, and 8 to 10 bytes for its place in a slot. In the
// steady state, arming and cancelling allocate nothing. The driver allocates a few small
// objects for each slot that it wakes up for, not for each timer. A wheel runs two goroutines,
// which [Wheel.Stop] ends. Share a wheel instead of making many.
//
// One mutex guards the whole wheel. On a machine with two cores, arming and cancelling a timer
// took 30 ns on one core, and 40 ns when both cores did it. In an experiment with a mutex for each
// slot, the times were 50 and 53 ns, because moving a timer locks two mutexes. While a slot is
// delivered, or a batch is armed by [Wheel.AddAll], the mutex stays locked for about 20 ns for each
// timer.
package timerwheel
