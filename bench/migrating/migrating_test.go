package migrating

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const (
	names   = 10
	lease   = 30 * time.Second
	longest = time.Minute // limit on the wait for a lock whose holders keep it for milliseconds
)

// locker is a process that uses one of the libraries. The function `lock` waits until it has acquired the lock or ctx ends.
type locker struct {
	library string
	lock    func(ctx context.Context, name int) (unlock func() error, err error)
}

// key returns the name of a lock. The number also decides which kind of lock Holdfast uses.
func key(name int) string { return "orders" + strconv.Itoa(name) }

func newHoldfast(t *testing.T, server *redistest.Server) *locker {
	client := server.Client(t)
	rt, err := holdfast.New(client, holdfast.Options{Lease: lease, Migrating: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close(context.Background())) })
	kinds := []func(name string) *holdfast.Lock{
		rt.Lock, rt.FencedLock, rt.FairLock, rt.SpinLock,
		func(name string) *holdfast.Lock { return rt.RWLock(name).Write() },
	}
	return &locker{"holdfast", func(ctx context.Context, name int) (func() error, error) {
		lease, err := kinds[name%len(kinds)](key(name)).Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return func() error { return lease.Release(context.Background()) }, nil
	}}
}

func newRedsync(t *testing.T, server *redistest.Server) *locker {
	rs := redsync.New(goredis.NewPool(server.Client(t)))
	return &locker{"redsync", func(ctx context.Context, name int) (func() error, error) {
		mutex := rs.NewMutex(key(name), redsync.WithExpiry(lease), redsync.WithTries(1<<30))
		if err := mutex.LockContext(ctx); err != nil {
			return nil, err
		}
		return func() error { _, err := mutex.Unlock(); return err }, nil
	}}
}

func newRedislock(t *testing.T, server *redistest.Server) *locker {
	client := redislock.New(server.Client(t))
	return &locker{"redislock", func(ctx context.Context, name int) (func() error, error) {
		for {
			lock, err := client.Obtain(ctx, key(name), lease, nil)
			switch {
			case err == nil:
				return func() error { return lock.Release(context.Background()) }, nil
			case ctx.Err() != nil:
				return nil, err
			case !errors.Is(err, redislock.ErrNotObtained) && !redis.HasErrorPrefix(err, "WRONGTYPE"): // redislock's error while Holdfast holds the lock
				return nil, err
			}
			pause(50*time.Millisecond + rand.N(200*time.Millisecond))
		}
	}}
}

func pause(d time.Duration) { <-time.After(d) }

// fleet is a set of working processes of all three libraries.
type fleet struct {
	t      *testing.T
	folder string // folder of the counter files, one for each name
	inside [names]atomic.Int32
	counts [names]atomic.Int64

	mu     sync.Mutex
	waited map[string]time.Duration // the longest wait
	served map[string]int
}

// work takes one lock after the other until stop is closed. Under the lock it reads, increments and writes a counter in a file. If
// two processes did that at the same time, the counter would be too low.
func (f *fleet) work(process *locker, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		name := rand.IntN(names)
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), longest)
		unlock, err := process.lock(ctx, name)
		cancel()
		if !assert.NoError(f.t, err, "%s has waited %v for %s", process.library, time.Since(began), key(name)) {
			return
		}
		f.note(process, time.Since(began))
		assert.EqualValues(f.t, 1, f.inside[name].Add(1), "%s shares %s with another holder", process.library, key(name))
		assert.NoError(f.t, f.count(name))
		f.counts[name].Add(1)
		f.inside[name].Add(-1)
		assert.NoError(f.t, unlock(), process.library)
	}
}

func (f *fleet) note(process *locker, waited time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waited[process.library] = max(f.waited[process.library], waited)
	f.served[process.library]++
}

func (f *fleet) count(name int) error {
	n, err := f.read(name)
	if err != nil {
		return err
	}
	pause(rand.N(3 * time.Millisecond))
	return os.WriteFile(f.file(name), []byte(strconv.Itoa(n+1)), 0o600)
}

func (f *fleet) file(name int) string { return filepath.Join(f.folder, key(name)) }

func (f *fleet) read(name int) (int, error) {
	text, err := os.ReadFile(f.file(name))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// Processes of redsync, redislock and Holdfast use the same locks: no two hold a lock at the same time, and nobody waits for ever.
func TestMigrating_ProcessesOfThreeLibrariesShareLocks(t *testing.T) {
	server := redistest.Start(t)
	f := &fleet{t: t, folder: t.TempDir(), waited: map[string]time.Duration{}, served: map[string]int{}}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, start := range []func(*testing.T, *redistest.Server) *locker{newHoldfast, newRedsync, newRedislock} {
		for range 2 {
			process := start(t, server)
			for range 3 {
				all.Go(func() { f.work(process, stop) })
			}
		}
	}
	if testing.Short() {
		pause(2 * time.Second)
	} else {
		pause(time.Minute)
	}
	close(stop)
	all.Wait()
	for name := range names {
		n, err := f.read(name)
		require.NoError(t, err)
		assert.EqualValues(t, f.counts[name].Load(), n, key(name))
	}
	for library, n := range f.served {
		t.Logf("%s: %d locks, waited %v at most", library, n, f.waited[library])
	}
	assert.Len(t, f.served, 3)
}

// While one library holds a lock, the other libraries cannot acquire it. Once it is released, they can.
func TestMigrating_EachWaitsForTheOthers(t *testing.T) {
	server := redistest.Shared(t)
	starts := []func(*testing.T, *redistest.Server) *locker{newHoldfast, newRedsync, newRedislock}
	for i, start := range starts {
		for j, startOther := range starts {
			if i == j {
				continue
			}
			for name := range 5 { // one for each kind of Holdfast's locks
				one, other := start(t, server), startOther(t, server)
				t.Run(fmt.Sprintf("%s after %s %d", other.library, one.library, name), func(t *testing.T) {
					name := name + names*(1+i*3+j)
					unlock, err := one.lock(t.Context(), name)
					require.NoError(t, err)
					short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					defer cancel()
					_, err = other.lock(short, name)
					require.Error(t, err)
					require.NoError(t, unlock())
					long, cancel := context.WithTimeout(t.Context(), longest)
					defer cancel()
					unlock, err = other.lock(long, name)
					require.NoError(t, err)
					require.NoError(t, unlock())
				})
			}
		}
	}
}

// Without Options.Migrating, Holdfast refuses a key that is a string. With the option, Holdfast treats a string as a held lock, and refuses
// only keys of other types.
func TestMigrating_OnlyAStringIsALock(t *testing.T) {
	server := redistest.Shared(t)
	client := server.Client(t)
	for _, migrating := range []bool{true, false} {
		rt, err := holdfast.New(client, holdfast.Options{Migrating: migrating, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, rt.Close(context.Background())) })
		for kind, lock := range map[string]func(name string) *holdfast.Lock{
			"plain": rt.Lock, "fenced": rt.FencedLock, "fair": rt.FairLock, "spin": rt.SpinLock,
			"write": func(name string) *holdfast.Lock { return rt.RWLock(name).Write() },
			"read":  func(name string) *holdfast.Lock { return rt.RWLock(name).Read() },
		} {
			name := redistest.Name(t) + kind
			require.NoError(t, client.RPush(t.Context(), name+"list", "x").Err())
			_, err = lock(name + "list").TryAcquire(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrForeignKey, kind)

			require.NoError(t, client.Set(t.Context(), name, "x", time.Minute).Err())
			_, err = lock(name).TryAcquire(t.Context())
			if !migrating {
				assert.ErrorIs(t, err, holdfast.ErrForeignKey, kind)
				continue
			}
			var busy *holdfast.BusyError
			require.ErrorAs(t, err, &busy, kind)
			assert.InDelta(t, time.Minute, busy.TTL, float64(30*time.Second))
			assert.NoError(t, rt.CheckFor(t.Context(), holdfast.KindLock, holdfast.KindFair))
		}
	}
}
