// Package linearize checks that locks behave as if each operation happened at one instant between its call and its return. Users of
// several runtimes work on a few names of a real redis-server, through proxies that a nemesis disturbs. Their calls and results are
// recorded and checked afterwards: by porcupine, against a model that knows about leases, and by assertions about intervals.
//
//	run.go       one run: a server, runtimes behind proxies, users (user.go), a nemesis (nemesis.go), an observer (observer.go)
//	history.go   what is recorded: one line of JSON for each operation, look and fault
//	check.go     the verdict about a history; check_porcupine.go uses the model (model.go), check_intervals.go the assertions A1 to A5
//	facts.go     what follows from a history without the model
//	queue.go     what the observer saw of a fair lock's queue
//	mutant.go    scripts that are broken on purpose: the verdict must be that something is wrong
//
// The history of a failed run is kept in a file, whose path is in the failure's text. This command checks the history again:
//
//	go test ./internal/linearize -run TestRecheck -linearize.file FILE -v
//
// # Assertions
//
// The numbers are those of SAFETY.md, except that A5 is another assertion here. The A5 of SAFETY.md says that nothing is left at the end. The
// function Run checks that.
//
//	A1  tokens of one name are distinct, and each is larger than all tokens that were returned before its holder called
//	A2  a resource that refuses smaller tokens never refuses a holder whose lease is valid afterwards
//	A3  the holders of leases that exclude each other never see them as valid at the same time
//	A4  if a holder sees its lease as valid, each of the observer's looks at Redis since the grant has found that lease
//	A5  whatever is held in Redis expires; free and taken permits add up to all permits
//	A7  one order of the operations, each at one instant, explains all answers
//
// # What a model cannot know
//
// A caller may have given up an acquire that took the lock for a while, and a lost lease may still be in Redis. Nobody holds such a grant, but it
// keeps others out. For as long as such a grant can last, the check excuses refused tries, but no other result. After a forced release, the former
// holders may still see valid leases, for at most the length of a lease. The model knows which leases these are.
//
// # Times
//
// All users are in one process. So one monotonic clock measures all instants, and they can be compared. For each operation, an instant before its
// call and one after its return are known. A lease lasts from the instant at which the last successful call was sent until Lease.ExpiresAt. In that
// time nobody else may be granted the lock. A rule of the runtime limits how long Redis may have a grant: an acquire, or a copy of it, is executed at
// most a third of the lease after the acquire was sent.
package linearize
