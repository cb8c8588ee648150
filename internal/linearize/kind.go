package linearize

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

// Kind is one kind of lock, as users take it.
type Kind struct {
	Name     string
	Modes    []string // in which it can be taken; "": there is but one
	Fenced   bool     // grants have tokens
	Queued   bool     // Redis keeps the queue
	Permits  int      // how many may hold it at once; 0: see Modes
	Unforced bool     // nobody frees it by force
	take     func(rt *holdfast.Runtime, name, mode string) taker
}

// Modes of a read/write lock.
const (
	modeRead  = "read"
	modeWrite = "write"
)

// taker is what leases come from.
type taker interface {
	Acquire(ctx context.Context, opts ...holdfast.AcquireOption) (*holdfast.Lease, error)
	TryAcquire(ctx context.Context, opts ...holdfast.AcquireOption) (*holdfast.Lease, error)
}

// Kinds are all of them.
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

// KindOf is a kind by its name.
func KindOf(name string) Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	panic("linearize: no kind " + name)
}
