// Package goose lets one process at a time run the migrations of [goose], by a lock in Redis. It is for databases that goose has no lock for (SQLite,
// ClickHouse, Turso and others).
//
//	provider, err := goose.NewProvider(dialect, db, migrations, goose.WithLocker(holdgoose.NewLocker(rt, "orders/migrations")))
//
// goose does not end a migration whose lock was lost. If Redis cannot be reached for longer than Options.Lease, another process may acquire the lock
// and begin to migrate. Unlock then returns an error that matches holdfast.ErrLeaseLost. If Redis does not confirm the release, Unlock returns
// another error, and the lock becomes free when its lease expires.
//
// [goose]: https://github.com/pressly/goose
package goose

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast"
)

// NewLocker makes a locker for goose.WithLocker. The locker's Lock waits until it has the lock, or until its context ends. name is the name of a
// holdfast.Lock; processes that migrate the same database must use the same name.
func NewLocker(rt *holdfast.Runtime, name string) lock.Locker { return newLocker(rt, name) }

// NewSessionLocker makes a locker for goose.WithSessionLocker. It uses the same lock as NewLocker. The locker sends nothing over a session's
// connection: it uses the connection only to tell the sessions apart.
func NewSessionLocker(rt *holdfast.Runtime, name string) lock.SessionLocker {
	return sessionLocker{newLocker(rt, name)}
}

func newLocker(rt *holdfast.Runtime, name string) *locker {
	return &locker{lock: rt.Lock(name), name: name, leases: map[*sql.Conn][]*holdfast.Lease{}}
}

type locker struct {
	lock *holdfast.Lock
	name string

	mu     sync.Mutex
	leases map[*sql.Conn][]*holdfast.Lease // leases not yet unlocked, by session (nil: no sessions), oldest first; all but the newest are lost
}

// Lock waits for the lock.
func (l *locker) Lock(ctx context.Context, _ *sql.DB) error { return l.acquire(ctx, nil) }

// Unlock releases the lock.
func (l *locker) Unlock(ctx context.Context, _ *sql.DB) error { return l.release(ctx, nil) }

func (l *locker) acquire(ctx context.Context, session *sql.Conn) error {
	lease, err := l.lock.Acquire(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases[session] = append(l.leases[session], lease)
	return nil
}

func (l *locker) release(ctx context.Context, session *sql.Conn) error {
	lease := l.oldest(session)
	if lease == nil {
		return fmt.Errorf("unlock %q: %w", l.name, errNotLocked)
	}
	return lease.Release(ctx)
}

// oldest removes and returns the oldest lease of a session, which is the lease that Unlock must release. The newest lease would be wrong: if one user
// of this locker has lost the lock and another user holds it, the loser's Unlock must not end the holder's lease.
func (l *locker) oldest(session *sql.Conn) *holdfast.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.leases[session]
	switch len(of) {
	case 0:
		return nil
	case 1:
		delete(l.leases, session) // otherwise the connection would be kept in memory
	default:
		l.leases[session] = of[1:]
	}
	return of[0]
}

var errNotLocked = errors.New("it is not locked")

type sessionLocker struct{ *locker }

// SessionLock waits for the lock.
func (l sessionLocker) SessionLock(ctx context.Context, session *sql.Conn) error {
	return l.acquire(ctx, session)
}

// SessionUnlock releases the lock.
func (l sessionLocker) SessionUnlock(ctx context.Context, session *sql.Conn) error {
	return l.release(ctx, session)
}
