package linearize

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

// Kind is one kind of lock that the users acquire.
type Kind struct {
	Name     string
	Modes    []string // the modes in which it can be acquired, such as read, or nil if it has only one
	Fenced   bool     // grants have tokens
	Queued   bool     // Redis keeps the queue
	Permits  int      // how many may hold it at once, or 0 if it has Modes instead of permits
	Unforced bool     // users do not release it by force
	take     func(rt *holdfast.Runtime, name, mode string) taker
}

// Modes of a read/write lock.
const (
	modeRead  = "read"
	modeWrite = "write"
)

// taker is a handle that grants leases.
type taker interface {
	Acquire(ctx context.Context, opts ...holdfast.AcquireOption) (*holdfast.Lease, error)
	TryAcquire(ctx context.Context, opts ...holdfast.AcquireOption) (*holdfast.Lease, error)
}

// Kinds are all kinds that are tested.
var Kinds = []Kind{
	{Name: "lock", take: func(rt *holdfast.Runtime, name, _ string) taker { return rt.Lock(name) }},
	{Name: "fair lock", Queued: true, take: func(rt *holdfast.Runtime, name, _ string) taker { return rt.FairLock(name) }},
	{Name: "fenced lock", Fenced: true, take: func(rt *holdfast.Runtime, name, _ string) taker { return rt.FencedLock(name) }},
	{Name: "spin lock", take: func(rt *holdfast.Runtime, name, _ string) taker { return rt.SpinLock(name) }},
	{Name: "read/write lock", Modes: []string{modeRead, modeWrite}, Unforced: true, take: readWrite},
	{Name: "permit semaphore", Permits: 2, Unforced: true, take: func(rt *holdfast.Runtime, name, _ string) taker { return rt.PermitSemaphore(name) }},
}

func readWrite(rt *holdfast.Runtime, name, mode string) taker {
	if mode == modeRead {
		return rt.RWLock(name).Read()
	}
	return rt.RWLock(name).Write()
}

// KindOf returns a kind by its name.
func KindOf(name string) Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	panic("linearize: no kind " + name)
}
