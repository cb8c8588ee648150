package inner

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	heldLocks = 100_000
	holdFor   = 30 * time.Second // three renewals of each
	perLock   = 2048             // bytes of heap, at most
	per10s    = 1020             // renewal scripts in 10 s, at most
)

// TestLeases_HoldingIsCheap holds many leases, none of which does anything but being renewed.
func TestLeases_HoldingIsCheap(t *testing.T) {
	needGate(t)
	rt := newRuntime(t)
	leases := make([]*holdfast.Lease, heldLocks)
	one, err := rt.Lock("bench:leases:warm").Acquire(t.Context()) // connections, pools, the wheel's goroutine
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	goroutines, before := runtime.NumGoroutine(), heap()
	start := time.Now()
	acquireAll(t, rt, leases)
	acquired := time.Since(start)
	after, goroutinesAfter := heap(), runtime.NumGoroutine()

	calls, cpu, server := scriptCalls(t), cpuTime(t), serverCPU(t)
	start = time.Now()
	<-time.After(holdFor)
	held := time.Since(start)
	calls, cpu, server = scriptCalls(t)-calls, cpuTime(t)-cpu, serverCPU(t)-server
	idle := heap()
	lost := 0
	for _, l := range leases {
		if !l.Valid() {
			lost++
		}
	}
	start = time.Now()
	releaseAll(t, leases)
	released := time.Since(start)

	bytesPerLock := float64(after-before) / heldLocks
	scriptsPer10s := float64(calls) / held.Seconds() * 10
	share := func(cpu time.Duration) float64 { return 100 * cpu.Seconds() / held.Seconds() }
	t.Logf("%d leases held for %v: acquired at %.0f/s, released at %.0f/s; heap %.0f B per lock (%.0f B after holding), %d goroutines more; "+
		"%.0f renewal scripts per 10 s; CPU %.1f %% of a core here, %.1f %% in the server",
		heldLocks, held.Round(time.Second), heldLocks/acquired.Seconds(), heldLocks/released.Seconds(),
		bytesPerLock, float64(idle-before)/heldLocks, goroutinesAfter-goroutines, scriptsPer10s, share(cpu), share(server))
	if lost > 0 {
		t.Errorf("%d leases were lost", lost)
	}
	if bytesPerLock > perLock {
		t.Errorf("%.0f B of heap per held lock, at most %d", bytesPerLock, perLock)
	}
	if scriptsPer10s > per10s {
		t.Errorf("%.0f renewal scripts per 10 s, at most %d", scriptsPer10s, per10s)
	}
	if goroutinesAfter-goroutines > 100 {
		t.Errorf("%d goroutines more", goroutinesAfter-goroutines)
	}
}

// acquireAll takes the locks with 64 goroutines.
func acquireAll(t *testing.T, rt *holdfast.Runtime, leases []*holdfast.Lease) {
	inParallel(t, len(leases), func(ctx context.Context, i int) (err error) {
		leases[i], err = rt.Lock(fmt.Sprintf("bench:leases:%06d", i)).Acquire(ctx)
		return err
	})
}

func releaseAll(t *testing.T, leases []*holdfast.Lease) {
	inParallel(t, len(leases), func(ctx context.Context, i int) error { return leases[i].Release(ctx) })
}

func inParallel(t *testing.T, n int, do func(ctx context.Context, i int) error) {
	const goroutines = 64
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := g; i < n; i += goroutines {
				if err := do(t.Context(), i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// heap is what is left after two collections: the second one empties what sync.Pool kept over the first.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
