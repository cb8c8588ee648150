package holdfast

import "github.com/holdfast-go/holdfast/protocol"

// Kind says how a name is locked or counted. It is a string. See [protocol.Kind].
type Kind = protocol.Kind

// The kinds. The comments name the method of Runtime that makes handles of each kind.
const (
	KindLock            = protocol.KindLock            // Runtime.Lock: "lock"
	KindFair            = protocol.KindFair            // Runtime.FairLock: "fair lock"
	KindFenced          = protocol.KindFenced          // Runtime.FencedLock: "fenced lock"
	KindSpin            = protocol.KindSpin            // Runtime.SpinLock: "spin lock"
	KindRead            = protocol.KindRead            // Runtime.RWLock, Read: "read lock"
	KindWrite           = protocol.KindWrite           // Runtime.RWLock, Write: "write lock"
	KindPermitSemaphore = protocol.KindPermitSemaphore // Runtime.PermitSemaphore and its leases: "permit semaphore"
	KindSemaphore       = protocol.KindSemaphore       // Runtime.Semaphore: "semaphore"
	KindLatch           = protocol.KindLatch           // Runtime.CountDownLatch: "latch"
)
