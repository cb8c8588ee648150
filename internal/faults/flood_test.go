package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

const (
	floodVar   = "HOLDFAST_FLOOD"
	floodLocks = 50
	floodEach  = 4        // waiters per lock
	floodHeap  = 32 << 20 // the most heap that a flood may cost the waiting process; keeping a million messages would take more
)

func init() { childproc.Register("flooded", func() { fail(waitInFlood()) }) }

// floodOrder is the task of the child that waits.
type floodOrder struct {
	Addr, Kind string
	Names      []string
}

// TestFault_FloodOfMessages publishes a million messages to a process with many waiters, first while the process runs, then while it is stopped. In
// the second case the server closes the process's connection. The heap of the process stays below floodHeap, and no waiter misses the releases in
// the flood.
func TestFault_FloodOfMessages(t *testing.T) {
	messages := locktest.Scaled(1_000_000, 20_000)
	for _, kind := range locktest.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			if kind.Deaf { // the spin lock, see TestSpinLock_ListensToNothingAndTellsAll
				t.Skip("its waiters do not subscribe")
			}
			showFlood(t, locktest.OwnPlace(t, kind, "--client-output-buffer-limit", "pubsub 512kb 256kb 1"), messages)
		})
	}
}

func showFlood(t *testing.T, p *locktest.Place, messages int) {
	order := floodOrder{Addr: p.Addr, Kind: p.Kind.Name}
	var leases []*holdfast.Lease
	rt := p.Runtime(t, holdfast.Options{})
	for i := range floodLocks {
		order.Names = append(order.Names, p.Name+strconv.Itoa(i))
		leases = append(leases, locktest.Acquire(t, p.Kind.Lock(rt, order.Names[i])))
	}
	text, err := json.Marshal(order)
	require.NoError(t, err)
	child := childproc.Run(t, "flooded", floodVar+"="+string(text))
	require.Equal(t, "waiting", child.Line())
	locktest.Await(t, "all to listen", func() bool { return len(listenedTo(t, p)) >= floodLocks })
	channels := listenedTo(t, p)

	before := p.Server.CommandStats(t, "evalsha")["evalsha"]
	flood(t, p, channels, messages)
	child.Send("heap")
	running := heapOf(t, child)
	checks := func() int64 { return p.Server.CommandStats(t, "evalsha")["evalsha"] - before }
	assert.Less(t, running, floodHeap, "bytes of heap at most")
	locktest.Await(t, "each waiter to have tried once more", func() bool { return checks() >= floodLocks })

	require.NoError(t, child.Stop())
	flood(t, p, channels, messages)
	locktest.Await(t, "the server to give the connection up", func() bool {
		flood(t, p, channels, 1000) // more than the kernel buffers for a process that does not read
		return len(listenedTo(t, p)) == 0
	})
	for _, lease := range leases {
		locktest.Release(t, lease)
	}
	require.NoError(t, child.Cont())
	start := time.Now()
	require.Equal(t, "served", child.Line())
	took := time.Since(start)
	child.Send("heap")
	stopped := heapOf(t, child)
	child.CloseInput()
	require.NoError(t, child.Wait())
	t.Logf("%d messages: heap of %d kB at most, %d attempts; again, to a stopped process: %d kB, all served %v after",
		messages, running>>10, checks(), stopped>>10, took)
	assert.Less(t, stopped, floodHeap)
	assert.Less(t, took, 3*fallback, "no waiter has missed the release")
}

// flood publishes to all channels in turn.
func flood(t *testing.T, p *locktest.Place, channels []string, messages int) {
	const batch = 1000
	for sent := 0; sent < messages; sent += batch {
		pipe := p.Redis.Pipeline()
		for i := range batch {
			pipe.Publish(t.Context(), channels[i%len(channels)], "0")
		}
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
	}
}

// listenedTo returns the channels that belong to the test's locks and have subscribers.
func listenedTo(t *testing.T, p *locktest.Place) []string {
	channels, err := p.Redis.PubSubChannels(t.Context(), "*"+p.Name+"*").Result()
	require.NoError(t, err)
	return channels
}

func heapOf(t *testing.T, child *childproc.Handle) int {
	n, err := strconv.Atoi(child.Line())
	require.NoError(t, err)
	return n
}

// The functions below run in the child process.

// fail ends a child whose work failed.
func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// waitInFlood waits for all locks. It prints a line when all waiters have been served. When the parent asks for it, waitInFlood prints the largest
// heap of the process since the last such question.
func waitInFlood() error {
	var order floodOrder
	if err := json.Unmarshal([]byte(os.Getenv(floodVar)), &order); err != nil {
		return err
	}
	watch := watchHeap()
	return withRuntime(order.Addr, func(rt *holdfast.Runtime) error {
		var group sync.WaitGroup
		for _, name := range order.Names {
			lock := lockOf(rt, order.Kind, name)
			for range floodEach {
				pending := lock.AcquireAsync(context.Background())
				group.Go(func() {
					if lease, err := pending.Lease(); err == nil {
						_ = lease.Release(context.Background())
					}
				})
			}
		}
		go func() { group.Wait(); fmt.Println("served") }()
		fmt.Println("waiting")
		for {
			var word string
			if _, err := fmt.Scanln(&word); err != nil {
				return nil //nolint:nilerr // end of input means end of the test
			}
			fmt.Println(watch())
		}
	})
}

// watchHeap samples the size of the heap often. It returns a function. Each call of this function returns the largest sample since the previous
// call.
func watchHeap() func() uint64 {
	var mu sync.Mutex
	var most uint64
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		mu.Lock()
		defer mu.Unlock()
		most = max(most, m.HeapAlloc)
	}
	go func() {
		for range time.Tick(5 * time.Millisecond) {
			look()
		}
	}()
	return func() uint64 {
		look()
		mu.Lock()
		defer mu.Unlock()
		was := most
		most = 0
		return was
	}
}
