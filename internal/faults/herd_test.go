package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
)

// TestFault_HerdIsSmall counts the server's work when 32 runtimes with eight goroutines each want one lock. During its turn, a process hands the
// lock on to its own goroutines. Here, eight goroutines hold the lock during each turn, for 1 ms each, so a turn is about as long as a default turn.
// Handoff.Max ends a turn after eight holders, and Handoff.For is too long to end it earlier. So a turn has eight holders even on a slow machine.
func TestFault_HerdIsSmall(t *testing.T) {
	const runtimes, goroutines, section = 32, 8, time.Millisecond
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		if p.Kind.Deaf { // the spin lock, whose back-off limits its calls: see TestSpinLock_Backoff
			t.Skip("its waiters poll")
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var group sync.WaitGroup
		var served atomic.Int64
		for range runtimes {
			lock := p.Lock(p.Runtime(t, holdfast.Options{Handoff: holdfast.Handoff{Max: 8, For: time.Second}}))
			for range goroutines {
				group.Go(func() { serve(ctx, lock, section, &served) })
			}
		}
		locktest.Await(t, "a beginning", func() bool { return served.Load() > goroutines*runtimes })
		before, first := p.Server.CommandStats(t), served.Load()
		<-time.After(time.Duration(locktest.Scaled(5_000, 1_500)) * time.Millisecond)
		after, rounds := p.Server.CommandStats(t), float64(served.Load()-first)
		stop()
		group.Wait()

		each := func(command string) float64 { return float64(after[command]-before[command]) / rounds }
		t.Logf("%v acquisitions; for each %.2f scripts, %.2f pings, %.2f subscriptions", rounds, each("evalsha"), each("ping"), each("subscribe"))
		assert.LessOrEqual(t, each("evalsha"), 6.0, "scripts")
		assert.Less(t, each("subscribe")+each("unsubscribe"), 1.0, "subscriptions")
	})
}

// serve takes a lock again and again.
func serve(ctx context.Context, lock *holdfast.Lock, section time.Duration, served *atomic.Int64) {
	for ctx.Err() == nil {
		lease, err := lock.Acquire(ctx)
		if err != nil {
			return
		}
		stayFor(section)
		served.Add(1)
		_ = lease.Release(context.Background())
	}
}

// TestFault_CrowdLetsOneIn lets a single waiter contend with sixteen goroutines of one process. The waiter is another runtime, or the stand-in for
// Redisson. The waiter mostly waits for one turn of that process, and at most for two turns and two gaps. A gap is a time in which a process leaves
// the lock free for clients that it cannot count.
func TestFault_CrowdLetsOneIn(t *testing.T) {
	for _, section := range []time.Duration{200 * time.Microsecond, 20 * time.Millisecond} {
		t.Run(fmt.Sprint("runtime ", section), func(t *testing.T) {
			t.Parallel()
			letIn(t, func(t *testing.T, p *locktest.Place) {
				lock := p.Lock(p.Runtime(t, holdfast.Options{}))
				showLetIn(t, p, section, func() { locktest.Release(t, locktest.Acquire(t, lock)) })
			})
		})
		t.Run(fmt.Sprint("script ", section), func(t *testing.T) {
			t.Parallel()
			letIn(t, func(t *testing.T, p *locktest.Place) {
				if p.Kind.Mode == "write" { // TestPromise_TurnsAreBounded covers this kind: there the waiter tries again when it has missed a message
					t.Skip("its messages are for all waiters; a Redisson thread that has tried and does not wait yet misses them")
				}
				peer := redissonpeer.New(locktest.NewClient(t, p.Addr), redissonpeer.Config{})
				t.Cleanup(peer.Close)
				lock := p.Kind.Peer(peer, p.Name, 1)
				showLetIn(t, p, section, func() {
					require.NoError(t, lock.Lock(t.Context(), time.Minute))
					require.NoError(t, lock.Unlock(t.Context()))
				})
			})
		})
	}
}

// letIn runs `show` for each kind whose processes take turns, on a separate server. Two kinds have no turns: a fair lock serves waiters in the order
// of its queue (see TestFairLock_GrantsInOrderOfQueueing), and with a spin lock it is chance who is next (see TestPromise_TurnsAreBounded).
func letIn(t *testing.T, show func(t *testing.T, p *locktest.Place)) {
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		if !p.Kind.TakesTurns() {
			t.Skip("processes do not take turns")
		}
		show(t, p)
	})
}

func showLetIn(t *testing.T, p *locktest.Place, section time.Duration, once func()) {
	const crowd = 16
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	var served atomic.Int64
	rt := p.Runtime(t, holdfast.Options{})
	for range crowd {
		group.Go(func() { serve(ctx, p.Lock(rt), section, &served) })
	}
	p.WaitForWaiting(t, rt, crowd-1)
	stalls := locktest.WatchStalls(t, p)
	measure(t, func() string {
		stalls.Take()
		waits, length := waitsFor(once)
		return notLetIn(t, waits, section, length, stalls.Take())
	})
}

// waitsFor calls the function `once` again and again for some seconds. It returns how long each call took, sorted, and the length of the whole
// measurement.
func waitsFor(once func()) (waits []time.Duration, length time.Duration) {
	length = time.Duration(locktest.Scaled(5_000, 1_500)) * time.Millisecond
	for begin := time.Now(); time.Since(begin) < length; {
		start := time.Now()
		once()
		waits = append(waits, time.Since(start))
	}
	slices.Sort(waits)
	return waits, length
}

// notLetIn checks how long a single waiter had to wait while it competed with a crowd. It returns what is wrong, or "" if nothing is wrong.
func notLetIn(t *testing.T, waits []time.Duration, section, length, late time.Duration) string {
	const turn, gap = 10 * time.Millisecond, 25 * time.Millisecond // Handoff.For, and gap of actors/turns/turns.go
	n := len(waits)
	median, longest := waits[n/2], waits[n-1]
	t.Logf("section %v: %d turns, waited %v mostly, %v at the 99th percentile, %v at most; stalls up to %v",
		section, n, median, waits[n*99/100], longest, late)
	switch {
	case median > turn+section+5*time.Millisecond+late:
		return fmt.Sprintf("the usual wait is %v, longer than a turn and a round trip", median)
	case longest > 2*(turn+section+gap)+4*late:
		return fmt.Sprintf("the longest wait is %v: more than two turns and gaps", longest)
	case n < int(length/(turn+section+4*late)/4):
		return fmt.Sprintf("%d turns are less than a quarter of its share", n)
	}
	return ""
}
