// Package sim runs whole worlds in a bubble of testing/synctest: several runtimes on one miniredis, users that acquire and release locks of
// every kind, and a nemesis that cuts connections, delays messages, pauses and kills processes, and loses the server's data. One seed
// determines everything.
//
//	seed -> plan (plan.go)  the kind of each lock, how many runtimes and users, which faults
//	world.go                runs it: users (user.go, messenger.go) and nemesis (nemesis.go) against processes (process.go)
//	wire.go, lane.go        give every message, in either direction, its own delay
//	process_clock.go        gives every timer its own delay
//	dice.go                 random values, which do not depend on the order in which they are drawn
//	place.go                one name in Redis, and what users acquire under it
//	astray.go               some messages arrive after their sender has given up on them
//	oracle.go               knows the holder of every lock, and reports violations
//	ledger.go               compares Trace, Stats and Held with each other and with what users got
//	listener.go             a subscriber to releases that never acquires
//	shutdown.go             a process may end by Shutdown
//	waits.go, trouble.go    waits, what may delay them, and grants that nobody wants
//	shadow.go               follows the server's state by the commands that it executes
//	tally.go                counts permits and latches, which have no owner
//	history.go              records all events; its hash is the same in every run of a seed
//	mutant*.go              scripts and runtimes that are broken on purpose: the oracle must notice
//	overlay.go              builds the broken runtimes; the shipped one contains nothing of them
//
// The assertions, by their names in SAFETY.md:
//
//	A1  tokens of one name are distinct, and a later request gets a larger one        oracle.token
//	A2  a resource that compares tokens refuses no valid holder                       oracle.looks
//	A3  no two valid leases conflict; no renewed lease is lost without a cause        oracle.holder, looks, tally.go
//	A4  the server knows every valid lease; an ended lease stays ended                oracle.looks
//	A5  no unwanted grant is left, during the run or after it                         oracle.orphans, world.remnants, tally, end
//	A6  nobody keeps waiting for a free lock                                          oracle.served, demanded, world.takeOnce, sweep
//	A8  a fair lock is granted in the order of its queue; turns keep their bounds     world.inOrder, oracle.inTurn
//	A9  a runtime that ends grants no new lease, lets holders finish, and ends soon   shutdown.go
//	A10 nobody acquires a lock before the at-least time of its last holder is over    oracle.leasts
//
// When the server has lost data, or its clock was set forward, two leases may both be valid until the first holder learns of the loss. A holder in
// a healthy process learns of it within little more than a third of the lease (world.toldWithin). Such overlaps are only counted. A7 is asserted
// by internal/linearize.
//
// Runs are deterministic. The scheduler has a choice only when two goroutines are ready at the same instant of the bubble's time. So
// every message, timer and pause of a user gets an instant of its own, which follows from a hash of the seed, the actor and the time. The
// runtimes also draw their random values from the seed (actors.Seams).
//
// miniredis is not Redis: this package tests the concurrency of the runtime. internal/faults tests the behaviour of real servers.
package sim
