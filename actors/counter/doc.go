// Package counter is the machine of semaphores and latches, which have a count but no holders. For a permit semaphore, the machine serves the
// operations on the number of permits. The machine is pure: messages and time go in, effects come out. The shell (package actors) calls Step and
// carries out the effects; transcripts in testdata show each decision.
//
//	step.go    the state, what is due next
//	wait.go    waiters: attempts, their answers, waking
//	want.go    reserving a semaphore for a waiter that wants several permits
//	task.go    requests that wait for nothing but Redis
//	end.go     early ends: cancel, panic, Close
//	call.go    a call: its script, its reply
package counter
