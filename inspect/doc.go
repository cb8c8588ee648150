// Package inspect shows what Redis knows about locks: their holders, the time that is left of their leases, and their waiters. It works with any
// client of go-redis for a server, a Sentinel or a cluster, and needs no Runtime. Only Free writes; everything else reads without changing anything.
// If the client is nil or a Ring, the error of each function matches holdfast.ErrInvalid.
//
// Names are keys of Redis, as Options.NameMapper returns them. Anybody may have written the data in Redis, so quote it before printing it. Values
// that Holdfast and Redisson never write are left out, or lead to an error that matches holdfast.ErrForeignKey.
//
// Redis does not store the kind of a lock, so the Kind of an Entry is what its keys in Redis look like. A spin lock, and a fair lock for which nobody
// waits, look like a plain lock. A permit semaphore without acquired permits, and a latch that nobody waits for, look like a semaphore. Any string
// that is a number looks like a semaphore, too, even if it has nothing to do with locks.
//
// An Entry is read with several commands. If the lock changes meanwhile, parts of the Entry may be from before the change and others from after it.
// Each command is short, no matter how many locks there are: keys are found with SCAN, and looked at in small batches. SECURITY.md lists the rights
// that a user of Redis needs.
package inspect
