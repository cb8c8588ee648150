// Package lock is the machine of locks. It is pure (wait.Machine): messages and time go in, effects come out. The shell (package actors)
// calls Step and carries out the effects; transcripts in testdata show each decision.
//
// A State is a lock with one contender and one grant at a time. A Group is a lock with several contenders or grants. Each contender or grant is a
// member, which is a State of its own. Both are in one package, because a Group uses the fields of its members everywhere.
//
//	step.go      the state, what is due next
//	call.go      a call: its script, its reply; messages besides those of package wait
//	acquire.go   contending in Redis: attempts and their outcomes
//	busy.go      a lock that others hold: when to try again, the subscription, wake-ups
//	waiters.go   errors for waiters, and reports about them
//	turn.go      handing a grant on inside the process, and ending a turn
//	linger.go    a grant that stays in Redis without a holder (Options.Linger)
//	grant.go     what only the machine knows about a grant
//	end.go       early ends: cancel, loss, panic, Close
//	orphans.go   grants that may be left in Redis, and are released in the background
//	extend.go    extends of a fixed lease
//	look.go      asks whether Redis still has a fixed lease
//	group.go     makes a State or a Group; passes each message for a group to the member concerned
//
// Further files of the group:
//
//	group_admit.go    which requests are given to a member, and when
//	group_effects.go  combines the members' effects into those of one actor
//	group_alarms.go   which member's alarm comes first
//	group_spare.go    how many of the waiters for permits may ask Redis, and which of them gets a permit that is passed on
package lock
