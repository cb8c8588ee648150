package locktest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
)

// Kind is one kind of lock with one holder at a time. Promises about such locks are tested for all kinds.
type Kind struct {
	Name string
	Lock func(rt *holdfast.Runtime, name string) *holdfast.Lock
	Peer func(peer *redissonpeer.Peer, name string, thread int64) redissonpeer.Lock // Redisson's lock of this kind
	// Queued: Redis keeps the queue, so every holder has a grant of its own.
	Queued bool
	// Deaf: waiters receive no messages, but poll.
	Deaf bool
	// Fenced: every grant has a token.
	Fenced bool
	// Mode is the Mode of State while the lock is held.
	Mode string
}

// TakesTurns reports whether processes take turns. They do if releases notify them and Redis keeps no queue.
func (k Kind) TakesTurns() bool { return !k.Queued && !k.Deaf }

// Kinds lists the kinds with one holder. A new kind needs one row here.
var Kinds = []Kind{
	{Name: "lock", Lock: (*holdfast.Runtime).Lock, Peer: rlock, Mode: "exclusive"},
	{Name: "fenced lock", Lock: (*holdfast.Runtime).FencedLock, Peer: rlock, Mode: "exclusive", Fenced: true},
	{Name: "spin lock", Lock: (*holdfast.Runtime).SpinLock, Peer: rlock, Mode: "exclusive", Deaf: true},
	{Name: "write lock", Lock: func(rt *holdfast.Runtime, name string) *holdfast.Lock { return rt.RWLock(name).Write() }, Peer: writeLock, Mode: "write"},
	{Name: "fair lock", Lock: (*holdfast.Runtime).FairLock, Peer: fairLock, Mode: "exclusive", Queued: true},
}

func rlock(peer *redissonpeer.Peer, name string, thread int64) redissonpeer.Lock {
	return peer.RLock(name, thread)
}

func writeLock(peer *redissonpeer.Peer, name string, thread int64) redissonpeer.Lock {
	return peer.RWriteLock(name, thread)
}

func fairLock(peer *redissonpeer.Peer, name string, thread int64) redissonpeer.Lock {
	return peer.RFairLock(name, thread)
}

func kindOf(t *testing.T, name string) Kind {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return Kinds[i]
}
