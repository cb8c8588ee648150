package interop

import (
	"context"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// kind is one kind of lock or counter on both sides.
type kind struct {
	name   string
	theirs string // the driver's word for it; "" for a counter, whose verbs begin with counter
	ours   func(rt *holdfast.Runtime, name string) lock

	// rival is the kind of who waits, if it is another.
	rival string
	// counter is "semaphore", "permit" or "latch", for what is no lock.
	counter string
	// polls: who waits on this side is told nothing and tries again and again.
	polls map[string]bool
	// leased: what is held may have a lease. renewed: the side has a watchdog for it.
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

// lock is what locks and permit semaphores have in common on our side.
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

// memberNames are the locks that a multi lock or red lock of this name consists of.
func memberNames(name string) []string { return []string{name + ".1", name + ".2", name + ".3"} }

// decisive are the members to take from a holder so that it holds nothing. Ours gives the rest of a multi lock back when it has lost
// one, and whoever takes another then may take it from the next.
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

// plural tells whether it consists of several locks.
func (k kind) plural() bool { return k.theirs == "multi" || k.theirs == "red" }

// theirName is the name as the driver wants it.
func (k kind) theirName(name string) string {
	if k.plural() {
		return strings.Join(memberNames(name), ",")
	}
	return name
}

// waiter is the kind of who waits while somebody holds this one.
func (k kind) waiter() kind {
	for _, other := range kinds {
		if other.name == k.rival {
			return other
		}
	}
	return k
}

// all is for what every kind is shown to do.
func all(kind) bool { return true }

// leased is for what is about leases.
func leased(k kind) bool { return k.leased }
