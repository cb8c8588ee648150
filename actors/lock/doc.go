// Package lock is the machine of locks. It is pure (wait.Machine): messages and time go in, effects come out. The shell (package actors)
// calls Step and carries out the effects; transcripts in testdata show each decision.
//
// A State is a lock with one contender and one grant at a time. A Group is one with several: each is a member, which is a State of its own.
// Both stay in one package, because a Group looks into its members everywhere.
//
//	new.go       which of both it is
//	step.go      the state, what is due next
//	messages.go  what goes in, beside the messages of package wait; calls
//	script.go    the calls' scripts and replies
//	acquire.go   contending in Redis: attempts, their answers, waiting and waking
//	turn.go      handing a grant on inside the process, and ending a turn
//	linger.go    a grant that stays in Redis without a holder (Options.Linger)
//	grant.go     what a machine knows of its grant besides package lease
//	end.go       what ends early: cancel, loss, panic, Close; grants that may be left in Redis (orphans)
//	clients.go   requesters of the actor message API
//	side.go      calls beside the grant: inspect, force-release
//	extend.go    extends of a fixed lease
//	look.go      looks whether Redis still has a fixed lease
//	group.go     a group: messages go to the member that they are about (group_place.go: who gets one; group_effects.go: one actor to the
//	             outside; group_alarms.go: which member wants an alarm first;
//	             group_spare.go: which waiters for permits ask, and whom a permit is passed on to)
package lock
