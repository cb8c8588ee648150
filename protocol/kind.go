package protocol

// Kind says how a name is locked or counted.
type Kind string

// The kinds of locks. Each request of the actor message API names one of them.
const (
	KindLock   Kind = "lock"        // the reentrant lock, Redisson's getLock
	KindFair   Kind = "fair lock"   // granted in queue order, Redisson's getFairLock
	KindFenced Kind = "fenced lock" // grants carry a fencing token, Redisson's getFencedLock
	KindSpin   Kind = "spin lock"   // waiters poll, Redisson's getSpinLock
	KindRead   Kind = "read lock"   // shared with other readers, Redisson's getReadWriteLock().readLock()
	KindWrite  Kind = "write lock"  // exclusive, Redisson's getReadWriteLock().writeLock()
)

// The other kinds. The actor message API refuses them with ErrInvalid.
const (
	KindPermitSemaphore Kind = "permit semaphore" // permits are leases, Redisson's getPermitExpirableSemaphore
	KindSemaphore       Kind = "semaphore"        // permits have no owner, Redisson's getSemaphore
	KindLatch           Kind = "latch"            // waiters wait for zero, Redisson's getCountDownLatch
)
