package protocol

// Kind says how a name is locked or counted.
type Kind string

// The kinds of locks. Requests of the actor message API name one of these.
const (
	KindLock   Kind = "lock"        // the reentrant lock, Redisson's getLock
	KindFair   Kind = "fair lock"   // grants in the order of queueing, Redisson's getFairLock
	KindFenced Kind = "fenced lock" // grants come with a fencing token, Redisson's getFencedLock
	KindSpin   Kind = "spin lock"   // waiters try again and again, Redisson's getSpinLock
	KindRead   Kind = "read lock"   // held beside other readers, Redisson's getReadWriteLock().readLock()
	KindWrite  Kind = "write lock"  // held alone, Redisson's getReadWriteLock().writeLock()
)

// The other kinds. The actor message API refuses them with ErrInvalid.
const (
	KindPermitSemaphore Kind = "permit semaphore" // its permits are leases, Redisson's getPermitExpirableSemaphore
	KindSemaphore       Kind = "semaphore"        // its permits have no owner, Redisson's getSemaphore
	KindLatch           Kind = "latch"            // waiters wait for zero, Redisson's getCountDownLatch
)
