package interop

import (
	"context"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// kind is one kind of lock or counter on both sides.
type kind struct {
	name   string
	theirs string // the driver's word for this kind of lock; "" for a counter
	ours   func(rt *holdfast.Runtime, name string) lock

	// rival is the name of the kind that a waiter uses while this kind is held. It is "" if the waiter uses the same kind.
	rival string
	// counter is "semaphore", "permit" or "latch". The driver's requests for a counter begin with this word. For a lock, counter is "".
	counter string
	// polls names the sides whose waiters get no messages and poll instead.
	polls map[string]bool
	// leased says whether holders have leases. renewed names the sides whose watchdog renews these leases.
	leased  bool
	renewed map[string]bool
}

var (
	bothSides = map[string]bool{"Go": true, "Java": true}
	justGo    = map[string]bool{"Go": true}
)

var kinds = []kind{
	{name: "lock", theirs: "lock", ours: named((*holdfast.Runtime).Lock), leased: true, renewed: bothSides},
	{name: "fair lock", theirs: "fair", ours: named((*holdfast.Runtime).FairLock), leased: true, renewed: bothSides},
	{name: "fenced lock", theirs: "fenced", ours: named((*holdfast.Runtime).FencedLock), leased: true, renewed: bothSides},
	{name: "spin lock", theirs: "spin", ours: named((*holdfast.Runtime).SpinLock), leased: true, renewed: bothSides, polls: bothSides},
	{name: "read lock", theirs: "read", ours: half((*holdfast.RWLock).Read), rival: "write lock", leased: true, renewed: bothSides},
	{name: "write lock", theirs: "write", ours: half((*holdfast.RWLock).Write), leased: true, renewed: bothSides},
	{name: "multi lock", theirs: "multi", ours: members(holdfast.Multi), leased: true, renewed: bothSides},
	{name: "red lock", theirs: "red", ours: members(holdfast.Red), leased: true, renewed: bothSides, polls: justGo},
	{name: "permit semaphore", counter: "permit", ours: permits, leased: true, renewed: justGo},
	{name: "semaphore", counter: "semaphore"},
	{name: "latch", counter: "latch"},
}

// lock is the method that locks and permit semaphores have in common on our side.
type lock interface {
	Acquire(ctx context.Context, opts ...holdfast.AcquireOption) (*holdfast.Lease, error)
}

func named(of func(*holdfast.Runtime, string) *holdfast.Lock) func(*holdfast.Runtime, string) lock {
	return func(rt *holdfast.Runtime, name string) lock { return of(rt, name) }
}

func half(of func(*holdfast.RWLock) *holdfast.Lock) func(*holdfast.Runtime, string) lock {
	return func(rt *holdfast.Runtime, name string) lock { return of(rt.RWLock(name)) }
}

func members(of func(...*holdfast.Lock) *holdfast.MultiLock) func(*holdfast.Runtime, string) lock {
	return func(rt *holdfast.Runtime, name string) lock {
		var all []*holdfast.Lock
		for _, member := range memberNames(name) {
			all = append(all, rt.Lock(member))
		}
		return of(all...)
	}
}

func permits(rt *holdfast.Runtime, name string) lock { return rt.PermitSemaphore(name) }

// memberNames returns the names of the locks that form the multi lock or red lock with this name.
func memberNames(name string) []string { return []string{name + ".1", name + ".2", name + ".3"} }

// decisive returns the members that must be freed by force so that the holder loses the whole lock. For our multi locks one member is enough, because
// our side then releases the other members. If the test freed these by force as well, the next holder of the lock could lose them.
func (k kind) decisive(name string, holder party) []string {
	all := memberNames(name)
	_, ours := holder.(*goParty)
	switch {
	case k.theirs == "red":
		return all[:2]
	case ours:
		return all[:1]
	}
	return all
}

// plural reports whether a lock of this kind consists of several locks.
func (k kind) plural() bool { return k.theirs == "multi" || k.theirs == "red" }

// theirName is the name in the form that the driver expects.
func (k kind) theirName(name string) string {
	if k.plural() {
		return strings.Join(memberNames(name), ",")
	}
	return name
}

// waiter returns the kind that a waiter uses while this kind is held.
func (k kind) waiter() kind {
	for _, other := range kinds {
		if other.name == k.rival {
			return other
		}
	}
	return k
}

// all selects every kind.
func all(kind) bool { return true }

// leased selects the kinds that have leases.
func leased(k kind) bool { return k.leased }
