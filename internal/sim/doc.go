// Package sim runs whole worlds in a bubble of testing/synctest: runtimes on one miniredis, with users that take and give back locks of
// every kind, and a nemesis that cuts, delays, pauses, kills and forgets. Everything follows from one seed.
//
//	seed -> plan (plan.go)  the kind of each lock, how many runtimes and users, which faults
//	world.go                runs it: users (user_*.go) and nemesis (nemesis.go) against processes (process.go)
//	wire.go, lane.go        every message in either direction takes its own time
//	process_clock.go        so does every timer
//	oracle.go               knows who holds what, and says what must never be
//	history.go              what happened when; its hash is the same in every run of a seed
//	mutant.go               scripts and processes that are broken on purpose: the oracle must notice
//
// Why it is deterministic: the scheduler has something to choose only when two goroutines are ready at the same instant of the
// bubble's time. So every message, timer and pause of a user gets an instant of its own, by a hash of the seed, who, and when; and what
// the runtimes draw by chance, they draw from the seed (actors.Seams).
//
// miniredis is not Redis: this is for the runtime's own concurrency. What a server does is shown on real ones, in internal/faults.
package sim
