// Package migrate lets one process at a time run the migrations of [golang-migrate], by a lock in Redis. It is for databases whose driver has no lock
// of its own.
//
//	driver := holdmigrate.Wrap(driver, rt, "orders/migrations", 10*time.Second)
//	m, err := migrate.NewWithDatabaseInstance("file://migrations", "orders", driver)
//
// [golang-migrate]: https://github.com/golang-migrate/migrate
package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/holdfast-go/holdfast"
)

// defaultWait is used if no wait is given. It is less than the 15 s after which golang-migrate gives up.
const defaultWait = 10 * time.Second

// Wrap returns a driver that acquires the holdfast.Lock with this name, and then d's own lock. Processes that migrate the same database must use the
// same name.
//
// wait is how long Lock waits for another process; 0 means 10 s. It must be shorter than Migrate.LockTimeout (15 s unless it was changed): after that
// time golang-migrate no longer waits for Lock, so nobody would release a lock that Lock acquires later. If the lock cannot be acquired within that
// wait, Lock returns database.ErrLocked.
//
// A migration whose lock was lost is not stopped, because golang-migrate's Run has no context. But no further one begins: SetVersion, Run and Drop
// ask Redis whether the lock is still held, and return holdfast.ErrLeaseLost or ErrClosed if it is not. After a migration, SetVersion writes the
// version before it reports the loss.
//
// Unlock returns only errors of d, because a Migrate whose Unlock has failed stays locked for ever. If Redis does not confirm the release, the lock
// becomes free when its lease expires.
//
// Close also releases a lock that could not be unlocked, for example because the connection to the database was broken.
//
// The Open method of the driver opens a driver of d's kind, without the lock in Redis.
func Wrap(d database.Driver, rt *holdfast.Runtime, name string, wait time.Duration) database.Driver {
	if wait == 0 {
		wait = defaultWait
	}
	return &driver{Driver: d, lock: rt.Lock(name), wait: wait}
}

type driver struct {
	database.Driver
	lock *holdfast.Lock
	wait time.Duration

	mu    sync.Mutex
	lease *holdfast.Lease // nil while not locked
}

// Lock waits for the lock in Redis, then takes the driver's own.
func (d *driver) Lock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lease != nil {
		return database.ErrLocked
	}
	lease, err := d.lock.Acquire(context.Background(), holdfast.WithWait(d.wait))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return fmt.Errorf("%w: %w", database.ErrLocked, err)
	}
	if err != nil {
		return err
	}
	if err := d.Driver.Lock(); err != nil {
		return errors.Join(err, lease.Release(context.Background()))
	}
	d.lease = lease
	return nil
}

// Unlock releases the driver's own lock, then the one in Redis. It does not return an error of the release, because golang-migrate would
// then treat the driver as locked for ever. If the lock was lost while a migration ran, SetVersion has said so.
func (d *driver) Unlock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lease == nil {
		return database.ErrNotLocked
	}
	if err := d.Driver.Unlock(); err != nil {
		return err // still locked, as golang-migrate sees it
	}
	_ = d.lease.Release(context.Background())
	d.lease = nil
	return nil
}

// Close closes the driver. It also releases the lock in Redis if Unlock has failed, or was not called. Otherwise the watchdog would renew the lock
// for as long as the process lives.
func (d *driver) Close() error {
	err := d.Driver.Close() // without the mutex: the driver's Lock may hold it, and may wait in the database until the driver is closed
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lease != nil {
		err = errors.Join(err, d.lease.Release(context.Background()))
		d.lease = nil
	}
	return err
}

// Run applies a migration, unless the lock was lost before. If the migration fails, and the lock was lost meanwhile, the error says both.
func (d *driver) Run(migration io.Reader) error {
	if err := d.lost(); err != nil {
		return err
	}
	if err := d.Driver.Run(migration); err != nil {
		return d.orLost(err)
	}
	return nil // SetVersion says whether the lock was lost
}

// SetVersion writes the version, and then returns an error if the lock was lost. golang-migrate also calls SetVersion before a migration, with dirty
// set. Such a call checks the lock first, and writes nothing if the lock was lost.
func (d *driver) SetVersion(version int, dirty bool) error {
	if dirty { // before the migration
		if err := d.lost(); err != nil {
			return err
		}
	}
	return d.orLost(d.Driver.SetVersion(version, dirty))
}

// Drop deletes everything in the database. If the lock was lost before, Drop deletes nothing and returns an error. If the lock was lost meanwhile,
// Drop returns an error after it has deleted everything.
func (d *driver) Drop() error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.orLost(d.Driver.Drop())
}

// orLost returns err, which may be nil. If the lock was lost, it adds that to the error.
func (d *driver) orLost(err error) error {
	if lost := d.lost(); lost != nil {
		return errors.Join(err, lost)
	}
	return err
}

// lost returns why the lock is not held any more. It returns nil if the lock is held, or was never acquired. lost asks Redis, because the
// watchdog notices a deleted key only at its next renewal, which may come after Unlock. If Redis does not answer, the lock counts as held while the
// lease is valid.
func (d *driver) lost() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lease == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state, err := d.lock.Inspect(ctx)
	mine := func(h holdfast.Holder) bool { return h.ID == d.lease.ID() }
	if d.lease.Valid() && (err != nil || slices.ContainsFunc(state.Holders, mine)) {
		return nil
	}
	return fmt.Errorf("lock %q of the migrations: %w", d.lock.Name(), cmp.Or(d.lease.Err(), holdfast.ErrLeaseLost))
}
