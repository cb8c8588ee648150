package faults_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	backlogVar   = "HOLDFAST_BACKLOG"
	backlogWatch = 3 * time.Second // how long the process watches itself once it has asked for all locks
	backlogMost  = 9 * time.Second // the longest outage allowed: an acquire gives up on Redis after 10 s, a third of the lease
	backlogEach  = 8 << 10         // the most bytes of heap for each waiter
)

var backlogPending = flag.Int("faults.pending", 20_000, "acquires that wait in an outage, in TestFault_BacklogOfAnOutage")

func init() { childproc.Register("backlogged", func() { fail(waitInOutage()) }) }

// backlogOrder tells the child how many locks to ask for while Redis is stopped.
type backlogOrder struct {
	Addr    string
	Pending int
}

// backlogReport is what the child reports.
type backlogReport struct {
	Asked   time.Duration // how long asking took
	Outage  time.Duration // from the first request until Redis was back
	Core    float64       // processor time used while all waited, as a share of one core
	Each    int           // bytes of heap for each waiter
	Refused int
	First   time.Duration // from the end of the outage to the first grant
	Last    time.Duration // from the end of the outage to the last grant
	Strays  int           // waiters served much earlier or later than their place in the queue
	Error   string        // the error of one refused acquire
}

// TestFault_BacklogOfAnOutage starts a process that asks for many locks with different names while Redis is stopped. The waiters cost next to
// nothing. When Redis is back, all of them are soon served, in the order of their requests. None is refused, because the outage was shorter than a
// third of the lease.
//
// The full run, on an otherwise idle machine: go test ./internal/faults -run TestFault_BacklogOfAnOutage -v -faults.pending 300000
func TestFault_BacklogOfAnOutage(t *testing.T) {
	pending := locktest.Scaled(*backlogPending, *backlogPending/20)
	report := showBacklog(t, pending)
	for report.Outage > backlogMost { // on a busy machine the outage gets too long, and the first acquires are rightly refused: repeat with fewer locks
		pending /= 4
		require.Greater(t, pending, 100, "this machine is too busy for the test")
		report = showBacklog(t, pending)
	}
	assert.Less(t, report.Core, 0.1, "of a core")
	assert.Less(t, report.Each, backlogEach, "bytes of heap for each")
	assert.Zero(t, report.Refused, report.Error)
	assert.Less(t, report.Last, locktest.Patience)
	assert.Zero(t, report.Strays)
}

func showBacklog(t *testing.T, pending int) (report backlogReport) {
	server := redistest.Start(t)
	text, err := json.Marshal(backlogOrder{Addr: server.Addr(), Pending: pending})
	require.NoError(t, err)
	child := childproc.Run(t, "backlogged", backlogVar+"="+string(text))
	require.Equal(t, "ready", child.Line())
	server.Pause()
	child.Send("ask")
	line, err := child.ReadLine(2 * time.Minute) // it takes time to ask for so many locks
	require.NoError(t, err)
	require.Equal(t, "watched", line)
	server.Resume()
	child.Send("back")
	line, err = child.ReadLine(2 * time.Minute)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(line), &report))
	require.NoError(t, child.Wait())
	t.Logf("%d pending, requested in %v, an outage of %v: %.3f of a core while they wait, %d bytes each; served %v to %v after the end, %d refused (%s), %d out of order",
		pending, report.Asked, report.Outage, report.Core, report.Each, report.First, report.Last, report.Refused, report.Error, report.Strays)
	return report
}

// The functions below run in the child process.

// waitInOutage asks for all locks when the parent says so. Then it measures the cost of the waiters for a while. It reports when all acquires have
// been answered.
func waitInOutage() error {
	var order backlogOrder
	if err := json.Unmarshal([]byte(os.Getenv(backlogVar)), &order); err != nil {
		return err
	}
	return withRuntime(order.Addr, func(rt *holdfast.Runtime) error {
		lease, err := rt.Lock("before").Acquire(context.Background())
		if err != nil {
			return err
		}
		if err := lease.Release(context.Background()); err != nil {
			return err
		}
		b := &backlog{pending: make([]*holdfast.Pending, order.Pending)}
		if err := hear("ready"); err != nil {
			return err
		}
		before := liveHeap()
		start := time.Now()
		b.ask(rt)
		b.report.Asked = time.Since(start)
		b.report.Each = (liveHeap() - before) / order.Pending
		began, used := time.Now(), cpuTime()
		<-time.After(backlogWatch)
		b.report.Core = (cpuTime() - used).Seconds() / time.Since(began).Seconds()
		if err := hear("watched"); err != nil {
			return err
		}
		b.report.Outage = time.Since(start)
		b.await(time.Now())
		return json.NewEncoder(os.Stdout).Encode(b.report)
	})
}

// hear prints a line and waits for the parent's answer.
func hear(say string) error {
	fmt.Println(say)
	var word string
	_, err := fmt.Scanln(&word)
	return err
}

func liveHeap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// cpuTime returns the processor time that this process has used.
func cpuTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// backlog has the pending acquires, in the order in which they were made.
type backlog struct {
	pending []*holdfast.Pending
	report  backlogReport
}

func (b *backlog) ask(rt *holdfast.Runtime) {
	for i := range b.pending {
		b.pending[i] = rt.FencedLock(fmt.Sprintf("name-%d", i)).AcquireAsync(context.Background())
	}
}

// await waits for all acquires. A token is the server's time at the grant, so the tokens show the order in which the server granted the locks.
func (b *backlog) await(back time.Time) {
	var first atomic.Int64
	tokens := make([]int64, 0, len(b.pending))
	for _, p := range b.pending {
		lease, err := p.Lease()
		first.CompareAndSwap(0, int64(time.Since(back)))
		if err != nil {
			b.report.Refused++
			b.report.Error = err.Error()
			continue
		}
		tokens = append(tokens, lease.Token())
	}
	b.report.First, b.report.Last = time.Duration(first.Load()), time.Since(back)
	sorted := slices.Sorted(slices.Values(tokens))
	for i, token := range tokens {
		rank, _ := slices.BinarySearch(sorted, token)
		if away := rank - i; away > 5000 || away < -5000 {
			b.report.Strays++
		}
	}
}
