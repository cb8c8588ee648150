// Package peer has the contenders of the benchmarks, each with the best settings that its documentation recommends. table.go lists them. The
// contenders that are written in Go implement Client or Batches.
package peer

import (
	"context"
	"time"
)

// Lease is the length of all contenders' leases, whether renewed or not. Quick runs have shorter leases, because otherwise they would end before
// the first renewal.
const Lease = 30 * time.Second

// Kind is a kind of lock.
type Kind string

// The kinds of lock. To acquire a semaphore is to take one permit.
const (
	Exclusive Kind = "exclusive"
	Fair      Kind = "fair"
	Read      Kind = "read"
	Write     Kind = "write"
	Semaphore Kind = "semaphore"
)

// Client is a contender in one process of a service: a runtime, a locker, or a pool of connections.
type Client interface {
	// Acquire waits for the lock until ctx ends.
	Acquire(ctx context.Context, kind Kind, name string) (Held, error)
	Close() error
}

// Held is an acquired lock.
type Held interface {
	Release(ctx context.Context) error
}

// Keeper is a Held that the contender does not renew by itself. Keep renews it as the contender's documentation recommends, and returns the function
// that stops renewing. If a renewal fails, Keep calls the function `lost` and renews no more.
type Keeper interface {
	Keep(ctx context.Context, lost func()) (stop func())
}

// Env has the servers and the settings for a client.
type Env struct {
	Redis      string        // host:port
	Etcd       string        // host:port
	Lease      time.Duration // lease of each lock
	Permits    int           // number of permits of each semaphore
	Goroutines int           // number of goroutines that will use the client
	Apart      bool          // no two goroutines will want the same name
	Linger     time.Duration // how long released locks are kept for the next local acquire, if the contender can do that
	Poll       time.Duration // interval at which a waiter retries, if its library polls: see workload.Workload
}

// Peer is one contender.
type Peer struct {
	Name    string // its name in flags, tables and results
	About   string // a description of the contender and its settings
	Source  string // the source that recommends the settings
	Role    Role
	Kinds   []Kind
	NoLock  bool     // excludes nobody; only shows how fast a hand-over can be
	Renews  bool     // leases are renewed until they are released
	Needs   string   // the program that it needs besides Redis, or "" if there is none
	Modules []string // modules whose versions are listed with the results

	// Keys returns the keys that exist in Redis while a lock is held. It is nil for a contender that does not use Redis.
	Keys func(name string) []string

	// Open opens a client. It is nil for a contender that is another program, and for one with OpenBatches.
	Open func(ctx context.Context, env Env) (Client, error)

	// OpenBatches opens a contender that acquires the locks with these names in batches, without clients. Such a contender is a Floor.
	OpenBatches func(ctx context.Context, env Env, names []string) (Batches, error)
}

// Role distinguishes libraries from contenders that only show a bound.
type Role string

// The roles.
const (
	Ours    Role = "ours"
	Library Role = "library"
	Floor   Role = "floor"   // the same work without a lock library
	Ceiling Role = "ceiling" // a lock that needs no server
)

// Batches acquires all locks of a connection at once, and then releases all of them. The result is an upper bound, because an application
// acquires each lock when it needs it.
type Batches interface {
	Lanes() int // number of goroutines that may call Pairs, each with its own lane
	// Pairs acquires all of the lane's locks and then releases them. It calls the function `done` with the number of locks, and with the time it took to
	// acquire them.
	Pairs(ctx context.Context, lane int, done func(pairs int, wait time.Duration)) error
	Exclusive(ctx context.Context) error // fails unless exactly one of many requests for a lock is granted
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
