package goose_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	holdgoose "github.com/holdfast-go/holdfast/contrib/goose"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// migrations are n tables.
func migrations(n int) fstest.MapFS {
	files := fstest.MapFS{}
	for i := range n {
		files[fmt.Sprintf("%05d_table.sql", i+1)] = &fstest.MapFile{
			Data: fmt.Appendf(nil, "-- +goose Up\nCREATE TABLE t%d (id INTEGER);\n-- +goose Down\nDROP TABLE t%d;\n", i, i),
		}
	}
	return files
}

func open(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

// These are goose's own tests of a locker. Each provider has its own runtime, as in different processes.
func TestLocker_KeepsGoosesPromises(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]func(rt *holdfast.Runtime) goose.ProviderOption{
		"locker": func(rt *holdfast.Runtime) goose.ProviderOption { return goose.WithLocker(holdgoose.NewLocker(rt, "m")) },
		"session locker": func(rt *holdfast.Runtime) goose.ProviderOption {
			return goose.WithSessionLocker(holdgoose.NewSessionLocker(rt, "m"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis, file := holdfasttest.New(t), filepath.Join(t.TempDir(), "db")
			locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
				p, err := goose.NewProvider(goose.DialectSQLite3, open(t, file), migrations(20), option(redis.Runtime()))
				require.NoError(t, err)
				return p
			})
		})
	}
	t.Run("concurrent", func(t *testing.T) {
		t.Parallel()
		redis := holdfasttest.New(t)
		locktesting.TestConcurrentLocking(t, nil, func(*testing.T) lock.Locker {
			return holdgoose.NewLocker(redis.Runtime(), "m")
		}, 2*time.Second)
	})
}

func TestLocker_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	l := holdgoose.NewLocker(redis.Runtime(), "orders/migrations")
	assert.ErrorContains(t, l.Unlock(t.Context(), nil), `unlock "orders/migrations": it is not locked`)

	require.NoError(t, l.Lock(t.Context(), nil))
	redis.Lose("orders/migrations")
	assert.ErrorIs(t, l.Unlock(t.Context(), nil), holdfast.ErrLeaseLost)

	bad := holdgoose.NewLocker(redis.Runtime(), "")
	assert.ErrorIs(t, bad.Lock(t.Context(), nil), holdfast.ErrInvalid)
}

// Redis is away when all migrations have been applied. The error of Up says that the release is not confirmed. It is not ErrLeaseLost.
func TestLocker_RedisIsAwayAtTheEnd(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	rt := redis.Runtime(holdfast.Options{Lease: 3 * time.Second}) // the release waits for a third of the lease
	files := migrations(1)
	p, err := goose.NewProvider(goose.DialectSQLite3, open(t, filepath.Join(t.TempDir(), "db")), files, goose.WithLocker(holdgoose.NewLocker(rt, "m")),
		goose.WithGoMigrations(goose.NewGoMigration(2, &goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error { redis.Cut(rt); return nil }}, nil)))
	require.NoError(t, err)
	_, err = p.Up(t.Context())
	assert.ErrorContains(t, err, "not confirmed")
	assert.NotErrorIs(t, err, holdfast.ErrLeaseLost)
	redis.Heal(rt)
	applied, err := p.Up(t.Context())
	assert.NoError(t, err)
	assert.Empty(t, applied)
}

// One user of a locker has lost the lock, and another one has acquired it. The Unlock of the first does not release the lock of
// the second.
func TestLocker_LosersUnlockEndsNobodysLock(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	l, other := holdgoose.NewLocker(redis.Runtime(holdfast.Options{Lease: time.Second}), "m"), redis.Runtime().Lock("m")
	require.NoError(t, l.Lock(t.Context(), nil))
	redis.Lose("m")
	require.NoError(t, l.Lock(t.Context(), nil), "once the loss is noticed")
	assert.ErrorIs(t, l.Unlock(t.Context(), nil), holdfast.ErrLeaseLost)
	_, err := other.TryAcquire(t.Context())
	assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.NoError(t, l.Unlock(t.Context(), nil))
	lease, err := other.TryAcquire(t.Context())
	require.NoError(t, err)
	assert.NoError(t, lease.Release(t.Context()))
}

// One session has lost the lock, and another session holds it. The holder unlocks first. Each session ends its own lease.
func TestSessionLocker_SessionEndsItsOwnLease(t *testing.T) {
	t.Parallel()
	redis := holdfasttest.New(t)
	l, other := holdgoose.NewSessionLocker(redis.Runtime(holdfast.Options{Lease: time.Second}), "m"), redis.Runtime().Lock("m")
	loser, holder := new(sql.Conn), new(sql.Conn)
	require.NoError(t, l.SessionLock(t.Context(), loser))
	redis.Lose("m")
	require.NoError(t, l.SessionLock(t.Context(), holder), "once the loss is noticed")
	require.NoError(t, l.SessionUnlock(t.Context(), holder))
	lease, err := other.TryAcquire(t.Context())
	require.NoError(t, err)
	assert.ErrorIs(t, l.SessionUnlock(t.Context(), loser), holdfast.ErrLeaseLost)
	assert.NoError(t, lease.Release(t.Context()))
}
