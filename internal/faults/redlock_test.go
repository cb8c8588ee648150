package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Servers that keep their grants may crash and restart at any time. There are never two valid holders, and the lock is still acquired.
func TestFault_RedLockOverRestarts(t *testing.T) {
	t.Parallel()
	eachKind(t, 60*time.Second, func(t *testing.T, kind locktest.Kind, d time.Duration) {
		f := newFive(t, kind, "--appendonly", "yes", "--appendfsync", "always")
		spans := f.contend(t, 3, func() { f.crash(t, d, 0) })
		t.Logf("%d holders over %d crashes", spans.Len(), f.crashes)
		assert.Empty(t, spans.Overlaps())
		assert.Greater(t, spans.Len(), 0, "it is acquired in spite of the crashes")
		f.assertNothingLeft(t)
	})
}

// Two holders can each have a majority if servers restart empty before the leases that they granted have ended. This is a documented limit of the
// algorithm. The test counts how often that happens.
func TestFault_RedLockOverEmptyRestarts(t *testing.T) {
	t.Parallel()
	eachKind(t, 60*time.Second, func(t *testing.T, kind locktest.Kind, d time.Duration) {
		f := newFive(t, kind)
		spans := f.contend(t, 3, func() { f.crash(t, d, 0) })
		overlaps := spans.Overlaps()
		t.Logf("%d holders over %d crashes with data loss: two leases were valid at once %d times", spans.Len(), f.crashes, len(overlaps))
		for _, overlap := range overlaps {
			t.Log(overlap)
		}
		assert.Greater(t, spans.Len(), 0)
		f.assertNothingLeft(t)
	})
}

// Servers that restart empty, but only after the leases that they granted have ended, are as safe as servers that keep their grants.
func TestFault_RedLockOverDelayedRestarts(t *testing.T) {
	t.Parallel()
	eachKind(t, 60*time.Second, func(t *testing.T, kind locktest.Kind, d time.Duration) {
		f := newFive(t, kind)
		spans := f.contend(t, 3, func() { f.crash(t, d, redLease) })
		t.Logf("%d holders over %d crashes with data loss", spans.Len(), f.crashes)
		assert.Empty(t, spans.Overlaps())
		assert.Greater(t, spans.Len(), 0)
		f.assertNothingLeft(t)
	})
}

// This is the shortest way to two holders. The first holder has three of five servers, and one of these restarts empty. The second holder gets that
// server and the other two, and so has three as well. The first holder learns of the loss at its next renewal.
func TestFault_RedLockIsToldOfAnEmptyRestart(t *testing.T) {
	t.Parallel()
	eachKind(t, 0, func(t *testing.T, kind locktest.Kind, _ time.Duration) {
		f := newFive(t, kind)
		first, second := f.process(t, 6*redLease), f.process(t, 6*redLease)
		for _, server := range f.servers[3:] {
			server.Kill()
		}
		lease := acquireIn(t, first)
		for _, server := range f.servers[3:] {
			server.Restart()
		}
		f.servers[0].Kill()
		restarted := time.Now()
		f.servers[0].Restart()
		other := acquireIn(t, second)
		t.Logf("both the first and the second holder's leases are valid: %t", lease.Valid())

		told := locktest.Closed(t, "the first holder's end", lease.Done())
		t.Logf("the first holder learned of its loss %v after the restart", told.Sub(restarted).Round(time.Millisecond))
		assert.ErrorIs(t, lease.Err(), holdfast.ErrLeaseLost)
		assert.True(t, other.Valid(), "the second keeps its majority")
		require.NoError(t, other.Release(t.Context()))
		f.assertNothingLeft(t)
	})
}

// eachKind runs `show` for every kind of lock: with the first kind for the whole of d, with each other kind for a sixth of d. With -short or the race
// detector it tests only the first kind, for a twelfth of d.
func eachKind(t *testing.T, d time.Duration, show func(t *testing.T, kind locktest.Kind, d time.Duration)) {
	for i, kind := range locktest.Kinds[:locktest.Scaled(len(locktest.Kinds), 1)] {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			part := time.Duration(locktest.Scaled(12, 1))
			if i > 0 {
				part = 2
			}
			show(t, kind, d*part/12)
		})
	}
}

func acquireIn(t *testing.T, red *holdfast.MultiLock) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	lease, err := red.Acquire(ctx)
	require.NoError(t, err)
	return lease
}

// Without a majority of servers the lock cannot be acquired, and a try fails in time.
func TestFault_RedLockWithoutMajority(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Kinds[:locktest.Scaled(len(locktest.Kinds), 1)] {
		for how, away := range map[string][2]func(*redistest.Server){
			"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
			"paused": {(*redistest.Server).Pause, (*redistest.Server).Resume},
		} {
			t.Run(kind.Name+"/"+how, func(t *testing.T) {
				t.Parallel()
				f := newFive(t, kind)
				red := f.process(t, redLease)
				require.NoError(t, acquireIn(t, red).Release(t.Context()))
				for _, server := range f.servers[:3] {
					away[0](server)
				}
				var worst time.Duration
				for range 20 {
					began := time.Now()
					_, err := red.TryAcquire(t.Context())
					worst = max(worst, time.Since(began))
					assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
				}
				t.Logf("three of five %s: %v at most until a try has failed", how, worst.Round(time.Millisecond))
				assert.Less(t, worst, 5*time.Second, "200 ms for the tries, 500 ms for the releases, and a busy machine")
				for _, server := range f.servers[:3] {
					away[1](server)
				}
				require.NoError(t, acquireIn(t, red).Release(t.Context()), "the lock can be acquired once the servers are back")
				f.assertNothingLeft(t)
			})
		}
	}
}

// five is a set of five servers, with one lock name on all of them.
type five struct {
	kind    locktest.Kind
	name    string
	servers []*redistest.Server
	crashes int
}

const redLease = time.Second

func newFive(t *testing.T, kind locktest.Kind, args ...string) *five {
	f := &five{kind: kind, name: redistest.Name(t)}
	for range 5 {
		f.servers = append(f.servers, redistest.Start(t, args...))
	}
	return f
}

// process makes a process with its own runtimes, and returns the red lock over them.
func (f *five) process(t *testing.T, lease time.Duration) *holdfast.MultiLock {
	var locks []*holdfast.Lock
	for _, server := range f.servers {
		rt := locktest.NewRuntime(t, locktest.NewClient(t, server.Addr()), holdfast.Options{Lease: lease})
		locks = append(locks, f.kind.Lock(rt, f.name))
	}
	return holdfast.Red(locks...)
}

// contend lets processes contend for the lock until `happen` returns.
func (f *five) contend(t *testing.T, processes int, happen func()) *locktest.Spans {
	var spans locktest.Spans
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range processes {
		red := f.process(t, redLease)
		for range 2 {
			group.Go(func() {
				for ctx.Err() == nil {
					lease, err := acquireRed(ctx, red)
					if err != nil {
						continue
					}
					length := rand.N(10 * time.Millisecond)
					if rand.IntN(4) == 0 {
						length = rand.N(3 * redLease) // while servers crash and restart
					}
					spans.Hold(lease, length)
					_ = lease.Release(ctx) // the lease may have been lost
				}
			})
		}
	}
	happen()
	cancel()
	group.Wait()
	return &spans
}

func acquireRed(ctx context.Context, red *holdfast.MultiLock) (*holdfast.Lease, error) {
	switch rand.IntN(4) {
	case 0:
		return red.Acquire(ctx, holdfast.WithLease(redLease))
	case 1:
		return red.TryAcquire(ctx)
	}
	return red.Acquire(ctx, holdfast.WithWait(redLease))
}

// crash kills one or two random servers at a time, and restarts them no sooner than `pause` later. It ends when d is over.
func (f *five) crash(t *testing.T, d, pause time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		victims := rand.Perm(len(f.servers))[:1+rand.IntN(2)]
		for _, i := range victims {
			f.servers[i].Kill()
			f.crashes++
			<-time.After(rand.N(redLease / 4))
		}
		<-time.After(pause + rand.N(redLease/2))
		for _, i := range victims {
			f.servers[i].Restart()
		}
		<-time.After(rand.N(redLease / 2))
	}
}

func (f *five) assertNothingLeft(t *testing.T) {
	for _, server := range f.servers {
		client := server.Client(t)
		locktest.Await(t, "the server", func() bool { return client.Ping(t.Context()).Err() == nil })
		locktest.Await(t, "nothing to be left", func() bool { return len(locktest.Keys(t, client)) == 0 })
	}
}
