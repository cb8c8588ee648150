// Package linearize checks that locks behave as if each operation happened at one instant between its call and its return. Users of
// several runtimes work on a few names of a real redis-server, through proxies with a nemesis; whatever they call and are told is
// recorded, and checked afterwards: by porcupine against a model that knows of leases, and by intervals.
//
//	run.go       one run: a server, runtimes behind proxies, users (user.go), a nemesis (nemesis.go), an observer (observer.go)
//	history.go   what is recorded: one line of JSON for each operation, look and fault
//	check.go     the verdict about a history: check_porcupine.go by the model (model.go), check_intervals.go by assertions A1 to A5
//	facts.go     what follows from a history without a model, queue.go what was seen of a fair lock's queue
//	mutant.go    scripts that are broken on purpose: the verdict must be that something is wrong
//
// The history of a failed run is kept in a file, whose path is in the failure's text. It is checked anew by
//
//	go test ./internal/linearize -run TestRecheck -linearize.file FILE -v
//
// # Assertions
//
//	A1  tokens of one name are distinct, and larger than all that were returned before they were asked for
//	A2  a resource that refuses smaller tokens never refuses a holder whose lease is valid afterwards
//	A3  leases that exclude each other are never valid at once: by what their holders saw
//	A4  Redis knows every holder that sees a valid lease after the look
//	A5  whatever is held in Redis ends by itself; permits that are free and those that are out are all there are
//	A7  one order of operations at instants explains all answers
//
// # What a model cannot know
//
// A call that was given up may have taken the lock for a while, and a lost lease may still be in Redis. Both keep others out, and neither
// is held: such grants excuse refusals for as long as they can last, and nothing else. After a release by force its victims may see
// themselves as holders until a lease later at most; the model knows who they are.
//
// # Times
//
// Everybody is in one process, so instants are of one monotonic clock and can be compared. An operation is known by the instants
// before its call and after its return. A holder reckons its lease from the instant at which the last successful call was sent, and
// Lease.ExpiresAt says until when: nobody else may be granted the lock before that instant. For how long at most the server may know a
// grant follows from the runtime's own rules: no copy of an acquire is executed later than a third of its lease after it was sent.
package linearize
