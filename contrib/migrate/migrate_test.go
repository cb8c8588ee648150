package migrate_test

import (
	"errors"
	"fmt"
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
	first, err := open(file) // writes the table of versions, for which golang-migrate takes no lock
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

// golang-migrate calls Lock on a goroutine and gives up on it when it takes too long. Lock stops waiting before that.
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

// No migration begins after the lock was lost, but one that has run is recorded.
func TestWrap_NothingBeginsWithoutTheLock(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	rt := redis.Runtime(holdfast.Options{Lease: time.Second})
	d := wrapped(t, rt, filepath.Join(t.TempDir(), "db"), time.Second)
	require.NoError(t, d.Lock())
	require.NoError(t, d.SetVersion(1, true))
	redis.Lose("orders/migrations")
	require.Eventually(t, func() bool { return errors.Is(d.SetVersion(2, true), holdfast.ErrLeaseLost) }, time.Minute, time.Millisecond)
	assert.ErrorIs(t, d.Run(strings.NewReader("CREATE TABLE t (id INTEGER)")), holdfast.ErrLeaseLost)
	assert.NoError(t, d.SetVersion(1, false))
	assert.ErrorIs(t, d.Unlock(), holdfast.ErrLeaseLost)
}

// broken is a driver whose connection breaks, so that Unlock fails until Close.
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
