package faults_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
)

// A crowd is a process whose goroutines all want one lock, again and again. A spinner is a process that asks for the lock every few milliseconds
// and listens to no messages. Both run as child processes.

const crowdVar = "HOLDFAST_CROWD"

func init() {
	childproc.Register("crowd", func() { inChild(contend) })
	childproc.Register("spinner", func() { inChild(spin) })
}

// crowdOrder is the task of a child, and crowdReport is the result of that task.
type (
	crowdOrder struct {
		Addr, Kind, Name string
		Goroutines       int
		Section, Pause   time.Duration
		Bare             bool // the spinner runs the script alone, without a runtime
	}
	crowdReport struct {
		Served int
		Median time.Duration // of the waits, like P99 and Worst
		P99    time.Duration
		Worst  time.Duration
		Each   []int // how often each goroutine was served
	}
)

// inChild calls `run` when the parent's first line arrives on standard input. The second line, or the end of the input, ends the ctx of `run`.
func inChild(run func(ctx context.Context, order crowdOrder) ([][]time.Duration, error)) {
	var order crowdOrder
	err := json.Unmarshal([]byte(os.Getenv(crowdVar)), &order)
	if err == nil {
		err = obey(order, run)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func obey(order crowdOrder, run func(context.Context, crowdOrder) ([][]time.Duration, error)) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	input := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if _, err := input.ReadString('\n'); err != nil {
		return err
	}
	go func() {
		_, _ = input.ReadString('\n')
		stop()
	}()
	waits, err := run(ctx, order)
	if err != nil {
		return err
	}
	var report crowdReport
	for _, each := range waits {
		report.Each = append(report.Each, len(each))
	}
	all := slices.Concat(waits...)
	slices.Sort(all)
	if report.Served = len(all); len(all) > 0 {
		report.Median, report.P99, report.Worst = all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
	}
	text, err := json.Marshal(report)
	fmt.Println(string(text))
	return err
}

func withRuntime(addr string, do func(rt *holdfast.Runtime) error) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	rt, err := holdfast.New(client, holdfast.Options{Logger: locktest.Quiet()})
	if err != nil {
		return err
	}
	return errors.Join(do(rt), rt.Close(context.Background()))
}

func lockOf(rt *holdfast.Runtime, kind, name string) *holdfast.Lock {
	i := slices.IndexFunc(locktest.Kinds, func(k locktest.Kind) bool { return k.Name == kind })
	return locktest.Kinds[i].Lock(rt, name)
}

// contend makes all its goroutines take and release the lock again and again until ctx ends. It returns all waits of each goroutine, including a
// wait that ctx ended.
func contend(ctx context.Context, order crowdOrder) (waits [][]time.Duration, err error) {
	waits = make([][]time.Duration, order.Goroutines)
	err = withRuntime(order.Addr, func(rt *holdfast.Runtime) error {
		lock := lockOf(rt, order.Kind, order.Name)
		var group sync.WaitGroup
		for i := range waits {
			group.Go(func() {
				for ctx.Err() == nil {
					start := time.Now()
					lease, err := lock.Acquire(ctx)
					waits[i] = append(waits[i], time.Since(start))
					if err != nil {
						return
					}
					stayFor(order.Section)
					_ = lease.Release(context.Background())
				}
			})
		}
		group.Wait()
		return nil
	})
	return waits, err
}

// spin asks for the lock every few milliseconds. It returns the times from one success to the next. The last of these times ends with ctx.
func spin(ctx context.Context, order crowdOrder) (waits [][]time.Duration, err error) {
	visit := func(once func() (bool, error)) error {
		turns, err := visits(ctx, order.Pause, once)
		waits = [][]time.Duration{turns}
		return err
	}
	if order.Bare {
		err = withPeer(order, func(lock *redissonpeer.RLock) error {
			return visit(func() (bool, error) {
				got, err := lock.TryLock(context.Background(), time.Minute)
				if !got {
					return false, err
				}
				stayFor(order.Section)
				return true, lock.Unlock(context.Background())
			})
		})
		return waits, err
	}
	err = withRuntime(order.Addr, func(rt *holdfast.Runtime) error {
		lock := lockOf(rt, order.Kind, order.Name)
		return visit(func() (bool, error) {
			lease, err := lock.TryAcquire(context.Background())
			switch {
			case errors.Is(err, holdfast.ErrNotAcquired):
				return false, nil
			case err != nil:
				return false, err
			}
			stayFor(order.Section)
			return true, lease.Release(context.Background())
		})
	})
	return waits, err
}

// visits calls the function `once` again and again, with pauses, and returns the times from one success to the next.
func visits(ctx context.Context, pause time.Duration, once func() (bool, error)) (waits []time.Duration, err error) {
	for start := time.Now(); ; stayFor(pause) {
		got, err := once()
		if got || ctx.Err() != nil {
			waits = append(waits, time.Since(start))
			start = time.Now()
		}
		if err != nil || ctx.Err() != nil {
			return waits, err
		}
	}
}

// withPeer calls `do` with a lock of the stand-in for Redisson. TryLock of such a lock listens to no messages.
func withPeer(order crowdOrder, do func(lock *redissonpeer.RLock) error) error {
	client := redis.NewClient(&redis.Options{Addr: order.Addr})
	defer func() { _ = client.Close() }()
	peer := redissonpeer.New(client, redissonpeer.Config{})
	defer peer.Close()
	return do(peer.RLock(order.Name, 1))
}

func stayFor(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// startCrowd starts a child that waits for its first order.
func startCrowd(t *testing.T, entry string, order crowdOrder) *childproc.Handle {
	text, err := json.Marshal(order)
	require.NoError(t, err)
	child := childproc.Run(t, entry, crowdVar+"="+string(text))
	require.Equal(t, "ready", child.Line())
	return child
}

// stopCrowd waits for a child's report and its end.
func stopCrowd(t *testing.T, child *childproc.Handle) (report crowdReport) {
	require.NoError(t, json.Unmarshal([]byte(child.Line()), &report))
	require.NoError(t, child.Wait())
	return report
}
