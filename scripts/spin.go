package scripts

import "github.com/holdfast-go/holdfast/protocol"

// SpinLock is the lock whose waiters poll instead of subscribing. Its release is published nevertheless, for waiters of other kinds
// of lock with the same name.
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
