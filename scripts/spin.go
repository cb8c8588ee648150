package scripts

import "github.com/holdfast-go/holdfast/protocol"

// SpinLock is the lock whose waiters listen to nothing: they try again and again. Its release is told all the same, to those who
// wait for the name with another kind of lock.
var SpinLock = &Kind{
	Name:         protocol.KindSpin,
	Family:       Spin,
	Handoff:      true,
	Owned:        true,
	Spins:        true,
	Acquire:      acquireLock,
	Release:      releaseLock,
	Pass:         passLock,
	Renew:        renewLocks,
	Look:         lookLock,
	Inspect:      inspectLock,
	ForceRelease: forceReleaseLock,
}
