// Package turns decides when a waiting process tries for a lock, so that the processes take turns. It is pure: the machines of locks tell it what
// happens, and it says when to try.
//
//	turns.go       turns, and the gaps in which a lock is left free for clients that only poll
//	attendance.go  subscribers that never try for the lock
//	patience.go    how long to wait for the processes ahead
//	crowd.go       places that Redis assigns if 64 processes or more wait
package turns
