// Package sim runs whole worlds in a bubble of testing/synctest: runtimes on one miniredis, with users that take and give back locks of
// every kind, and a nemesis that cuts, delays, pauses, kills and forgets. Everything follows from one seed.
//
//	seed -> plan (plan.go)  the kind of each lock, how many runtimes and users, which faults
//	world.go                runs it: users (user.go, messenger.go) and nemesis (nemesis.go) against processes (process.go)
//	wire.go, lane.go        every message in either direction takes its own time
//	process_clock.go        so does every timer
//	astray.go               some messages arrive when their sender has given them up
//	oracle.go               knows who holds what, and says what must never be
//	listener.go             somebody listens to releases and wants nothing
//	shutdown.go             a process may end by Shutdown
//	waits.go, trouble.go    and who waits, with what in his way; and what nobody wants any more
//	shadow.go               what can be learned of the server at the instant of each command
//	tally.go                what nobody owns is counted
//	history.go              what happened when; its hash is the same in every run of a seed
//	mutant*.go              scripts and runtimes that are broken on purpose: the oracle must notice
//	overlay.go              builds the broken runtimes, of which nothing is in the shipped one
//
// What is asserted, by the names that SAFETY.md has for it:
//
//	A1  tokens of one name are distinct, and who asks later has a larger one          oracle.token
//	A2  a resource that compares tokens refuses no valid holder                       oracle.looks
//	A3  no two valid holders exclude each other; no renewed lease is lost for nothing oracle.holder, looks, tally.go
//	A4  a valid lease is known to the server; what is over stays over                 oracle.looks
//	A5  nothing is left that nobody wants, during the run and after it                oracle.orphans, world.remnants, tally, end
//	A6  nobody waits for what is free                                                 oracle.served, world.takeOnce
//	A8  a fair lock is granted in the order of its queue; turns keep their bounds     world.inOrder, oracle.inTurn
//	A9  a shutdown lets nobody new in, and ends no lease before its time is over      shutdown.go
//	A10 nobody has a lock before the at-least of its last holder is over              oracle.leasts
//
// When the server has lost data, or its clock was set forward, two leases may be valid until the first is told, within a third of the
// lease if all is well with its process: such overlaps are counted. A7 is that of internal/linearize.
//
// Why it is deterministic: the scheduler has something to choose only when two goroutines are ready at the same instant of the
// bubble's time. So every message, timer and pause of a user gets an instant of its own, by a hash of the seed, who, and when; and what
// the runtimes draw by chance, they draw from the seed (actors.Seams).
//
// miniredis is not Redis: this is for the runtime's own concurrency. What a server does is shown on real ones, in internal/faults.
package sim
