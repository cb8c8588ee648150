package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	dbtesting "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdmigrate "github.com/holdfast-go/holdfast/contrib/migrate"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// migrations are n tables.
func migrations(n int) fstest.MapFS {
	files := fstest.MapFS{}
	for i := range n {
		files[fmt.Sprintf("%d_table.up.sql", i+1)] = &fstest.MapFile{Data: fmt.Appendf(nil, "CREATE TABLE t%d (id INTEGER);", i)}
	}
	return files
}

func open(file string) (database.Driver, error) {
	return new(sqlite.Sqlite).Open("sqlite://" + file + "?_pragma=busy_timeout(10000)")
}

func wrapped(t *testing.T, rt *holdfast.Runtime, file string, wait time.Duration) database.Driver {
	t.Helper()
	d, err := open(file)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	return holdmigrate.Wrap(d, rt, "orders/migrations", wait)
}

// golang-migrate's own tests of a driver.
func TestWrap_IsADriver(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	dbtesting.Test(t, wrapped(t, redis.Runtime(), filepath.Join(t.TempDir(), "db"), 100*time.Millisecond), []byte("CREATE TABLE t (id INTEGER);"))
}

// Five instances start at once, each with a runtime of its own, as in different processes. One of them migrates.
func TestWrap_OneInstanceMigrates(t *testing.T) {
	t.Parallel()
	redis, file := holdfasttest.New(t), filepath.Join(t.TempDir(), "db")
	first, err := open(file) // creates the table of versions, because golang-migrate does that without the lock
	require.NoError(t, err)
	require.NoError(t, first.Close())
	const instances = 5
	ups := make([]error, instances)
	var all sync.WaitGroup
	for i := range instances {
		d := wrapped(t, redis.Runtime(), file, time.Minute)
		all.Go(func() {
			files, err := iofs.New(migrations(10), ".")
			if !assert.NoError(t, err) {
				return
			}
			m, err := migrate.NewWithInstance("iofs", files, "sqlite", d)
			if !assert.NoError(t, err) {
				return
			}
			m.LockTimeout = 2 * time.Minute
			ups[i] = m.Up()
		})
	}
	all.Wait()
	migrated := 0
	for _, err := range ups {
		if err == nil {
			migrated++
		} else {
			assert.ErrorIs(t, err, migrate.ErrNoChange)
		}
	}
	assert.Equal(t, 1, migrated)
}

// golang-migrate calls Lock on a goroutine, and stops waiting for that call after LockTimeout. The driver's Lock gives up earlier.
func TestWrap_DoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	free := redis.HeldElsewhere("orders/migrations")
	d := wrapped(t, redis.Runtime(), filepath.Join(t.TempDir(), "db"), 50*time.Millisecond)
	err := d.Lock()
	assert.ErrorIs(t, err, database.ErrLocked)
	assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
	assert.ErrorIs(t, d.Unlock(), database.ErrNotLocked)
	free()
	require.NoError(t, d.Lock())
	assert.ErrorIs(t, d.Lock(), database.ErrLocked)
	require.NoError(t, d.Unlock())
}

// hooked is a driver that calls a function before its first Run.
type hooked struct {
	database.Driver
	once   sync.Once
	before func()
}

func (h *hooked) Run(migration io.Reader) error {
	h.once.Do(h.before)
	return h.Driver.Run(migration)
}

// While a migration runs, the lock is lost, Redis goes away, or the runtime is closed. The version of that migration is written all the same. After a
// loss no further migration begins, but the next Up of the same Migrate continues.
func TestWrap_LostWhileAMigrationRuns(t *testing.T) {
	t.Parallel()
	lose := func(redis *holdfasttest.Server, _ *holdfast.Runtime) { redis.Lose("orders/migrations") }
	cut := func(redis *holdfasttest.Server, rt *holdfast.Runtime) { redis.Cut(rt) }
	for name, c := range map[string]struct {
		files      int
		hurt       func(*holdfasttest.Server, *holdfast.Runtime)
		err, again error
	}{
		"the first of two": {2, lose, holdfast.ErrLeaseLost, nil},
		"the last":         {1, lose, holdfast.ErrLeaseLost, migrate.ErrNoChange},
		"Redis is away":    {1, cut, nil, migrate.ErrNoChange},
		"the runtime is closed": {1, func(_ *holdfasttest.Server, rt *holdfast.Runtime) { _ = rt.Close(context.Background()) },
			holdfast.ErrClosed, holdfast.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := holdfasttest.New(t)
			rt := redis.Runtime(holdfast.Options{Lease: 9 * time.Second}) // when Redis is away, the release waits for a third of the lease
			inner, err := open(filepath.Join(t.TempDir(), "db"))
			require.NoError(t, err)
			d := holdmigrate.Wrap(&hooked{Driver: inner, before: func() { c.hurt(redis, rt) }}, rt, "orders/migrations", time.Minute)
			files, err := iofs.New(migrations(c.files), ".")
			require.NoError(t, err)
			m, err := migrate.NewWithInstance("iofs", files, "sqlite", d)
			require.NoError(t, err)
			m.LockTimeout = 2 * time.Minute

			assert.ErrorIs(t, m.Up(), c.err)
			version, dirty, err := m.Version()
			require.NoError(t, err)
			assert.EqualValues(t, 1, version)
			assert.False(t, dirty)
			redis.Heal(rt)
			assert.ErrorIs(t, m.Up(), c.again)
			_, err = m.Close()
			assert.NoError(t, err)
		})
	}
}

// Without the lock no migration begins, and nothing is dropped.
func TestWrap_NothingBeginsWithoutTheLock(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	d := wrapped(t, redis.Runtime(), filepath.Join(t.TempDir(), "db"), time.Second)
	require.NoError(t, d.Lock())
	require.NoError(t, d.SetVersion(1, true))
	redis.Lose("orders/migrations")
	assert.ErrorIs(t, d.SetVersion(2, true), holdfast.ErrLeaseLost)
	assert.ErrorIs(t, d.Run(strings.NewReader("CREATE TABLE t (id INTEGER)")), holdfast.ErrLeaseLost)
	assert.ErrorIs(t, d.Drop(), holdfast.ErrLeaseLost)
	err := d.SetVersion(1, false)
	assert.ErrorIs(t, err, holdfast.ErrLeaseLost)
	assert.ErrorContains(t, err, "orders/migrations", "golang-migrate returns the error as it is, so it names the lock")
	version, dirty, err := d.Version()
	require.NoError(t, err)
	assert.Equal(t, 1, version)
	assert.False(t, dirty)
	assert.NoError(t, d.Unlock())
}

// waiting is a driver whose Lock waits in the database until the driver is closed.
type waiting struct {
	database.Driver
	begun, closed chan struct{}
}

func (w waiting) Lock() error {
	close(w.begun)
	<-w.closed
	return errors.New("the connection was closed")
}

func (w waiting) Close() error {
	close(w.closed)
	return nil
}

// golang-migrate stops waiting for Lock after LockTimeout. Close then has to reach the driver, whose Lock still waits.
func TestWrap_CloseEndsAWaitInTheDatabase(t *testing.T) {
	t.Parallel()
	rt := holdfasttest.New(t).Runtime()
	w := waiting{begun: make(chan struct{}), closed: make(chan struct{})}
	d := holdmigrate.Wrap(w, rt, "orders/migrations", time.Minute)
	locked, closed := make(chan error, 1), make(chan error, 1)
	go func() { locked <- d.Lock() }()
	<-w.begun
	go func() { closed <- d.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("Close waits for Lock")
	}
	require.ErrorContains(t, <-locked, "the connection was closed")
	lease, err := rt.Lock("orders/migrations").TryAcquire(t.Context())
	require.NoError(t, err, "the lock in Redis is free")
	require.NoError(t, lease.Release(t.Context()))
}

// broken is a driver whose Unlock fails, as if the connection were broken.
type broken struct{ database.Driver }

func (broken) Unlock() error { return errors.New("the connection is broken") }

// golang-migrate closes a driver that it could not unlock. The next attempt of the same process gets the lock.
func TestWrap_CloseReleases(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	rt, file := redis.Runtime(), filepath.Join(t.TempDir(), "db")
	inner, err := open(file)
	require.NoError(t, err)
	d := holdmigrate.Wrap(broken{inner}, rt, "orders/migrations", time.Second)
	require.NoError(t, d.Lock())
	require.Error(t, d.Unlock())
	require.NoError(t, d.Close())
	again := wrapped(t, rt, file, time.Second)
	require.NoError(t, again.Lock())
	require.NoError(t, again.Unlock())
}
