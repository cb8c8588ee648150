// Package peer has the contenders: one file each, in the best honest settings that its own documentation recommends. What they
// are is in the table of table.go; what one must be able to do is a Client.
package peer

import (
	"context"
	"time"
)

// Lease is the lease of all contenders, whether renewed or not. Short runs use a shorter one to see renewals at all.
const Lease = 30 * time.Second

// Kind is a kind of lock.
type Kind string

// The kinds. Of a semaphore one permit is acquired.
const (
	Exclusive Kind = "exclusive"
	Fair      Kind = "fair"
	Read      Kind = "read"
	Write     Kind = "write"
	Semaphore Kind = "semaphore"
)

// Client is what one process of a service opens: one runtime, locker, or pool of connections.
type Client interface {
	// Acquire waits for the lock until ctx ends.
	Acquire(ctx context.Context, kind Kind, name string) (Held, error)
	Close() error
}

// Held is an acquired lock.
type Held interface {
	Release(ctx context.Context) error
}

// Keeper is a Held that its contender does not renew by itself: Keep does what its documentation recommends for that, and returns
// the end of it.
type Keeper interface {
	Keep(ctx context.Context, lost func()) (stop func())
}

// Env is where a contender works.
type Env struct {
	Redis      string        // host:port
	Etcd       string        // host:port
	Lease      time.Duration // of what it acquires
	Permits    int           // of semaphores
	Goroutines int           // that will use this client
	Apart      bool          // no two of them will want the same name
	Linger     time.Duration // how long released locks are kept for the next local acquire, by contenders that can
	Poll       time.Duration // how often waiters of libraries that poll ask: see workload.Workload
}

// Peer is one contender.
type Peer struct {
	Name    string // in flags, tables and results
	About   string // what it is and in what settings
	Source  string // who recommends them
	Role    Role
	Kinds   []Kind
	NoLock  bool // excludes nobody: a floor of one workload
	Renews  bool // keeps what is held until it is released
	Needs   string
	Modules []string // whose versions belong into the results

	// Keys are those that exist in Redis while a lock is held; nil: it has none there.
	Keys func(name string) []string

	// Open makes a client. It is nil for a contender that is another program, and for one with a load of its own.
	Open func(ctx context.Context, env Env) (Client, error)

	// OpenBatches makes a load of its own, of that many locks: a floor below any library.
	OpenBatches func(ctx context.Context, env Env, names []string) (Batches, error)
}

// Role tells libraries from what only bounds them.
type Role string

// The roles.
const (
	Ours    Role = "ours"
	Library Role = "library"
	Floor   Role = "floor"   // the same scripts without a lock library
	Ceiling Role = "ceiling" // a lock that needs no server
)

// Batches acquires and releases many locks at once, which no user of a lock could.
type Batches interface {
	Lanes() int // goroutines that may call Pairs, each with its number
	// Pairs acquires all of the lane's locks and then releases them; done gets their number, and how long it took to
	// acquire them.
	Pairs(ctx context.Context, lane int, done func(pairs int, wait time.Duration)) error
	Exclusive(ctx context.Context) error // an error unless a lock is granted to only one of many who want it
	Close() error
}

// Can reports whether the contender has locks of a kind.
func (p *Peer) Can(kind Kind) bool {
	for _, k := range p.Kinds {
		if k == kind {
			return true
		}
	}
	return false
}
