package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/protocol"
)

// Owner identifies the party that acquires a lock. Go has no thread identity, so re-entry is explicit: acquiring again under the same Owner
// re-enters. The lock is free when it has been released as many times as it was acquired. An acquire without an Owner gets a new Owner. Owners are
// comparable; the zero Owner means none. Runtime.NewOwner makes an Owner. See [protocol.Owner].
type Owner = protocol.Owner

type ownerKey struct{}

// ownerInContext is an owner in a context, for every lock or for one.
type ownerInContext struct {
	owner Owner
	only  *Lock // nil if the owner is for every lock
	outer *ownerInContext
}

// ContextWithOwner returns a context under which every acquire acts on behalf of o, unless the acquire has the option WithOwner. Do not pass the
// context to concurrent goroutines: they would all be the same owner.
func ContextWithOwner(ctx context.Context, o Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, &ownerInContext{owner: o})
}

// contextForLock returns the context that Do passes to its function. It has an owner for that lock only.
func contextForLock(ctx context.Context, o Owner, l *Lock) context.Context {
	outer, _ := ctx.Value(ownerKey{}).(*ownerInContext)
	return context.WithValue(ctx, ownerKey{}, &ownerInContext{owner: o, only: l, outer: outer})
}

// ownerFor finds the innermost owner that applies to l.
func ownerFor(ctx context.Context, l *Lock) Owner {
	entry, _ := ctx.Value(ownerKey{}).(*ownerInContext)
	for ; entry != nil; entry = entry.outer {
		if entry.only == nil || entry.only.same(l) {
			return entry.owner
		}
	}
	return Owner{}
}
