package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
)

// newExample is a runtime on a Redis inside the process, with what ends both.
func newExample() (rt *holdfast.Runtime, end func()) {
	server, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	rt, err = holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return rt, func() {
		_ = rt.Close(context.Background())
		_ = server.Close()
	}
}

// Whoever asks first is served first, in whatever process.
func ExampleRuntime_FairLock() {
	rt, end := newExample()
	defer end()
	ctx := context.Background()
	lock := rt.FairLock("printer")
	first, _ := lock.Acquire(ctx)
	var waiting []*holdfast.Pending
	for range 3 {
		waiting = append(waiting, lock.AcquireAsync(ctx))
	}
	_ = first.Release(ctx)
	for i, pending := range waiting {
		lease, err := pending.Lease()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("job", i)
		_ = lease.Release(ctx)
	}
	// Output:
	// job 0
	// job 1
	// job 2
}

// A spin lock asks again and again instead of listening.
func ExampleRuntime_SpinLock() {
	rt, end := newExample()
	defer end()
	ctx := context.Background()
	lock := rt.SpinLock("cache:42")
	counter := 0
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			err := lock.Do(ctx, func(context.Context) error { counter++; return nil },
				holdfast.WithBackoff(holdfast.Backoff{Initial: time.Millisecond, Max: 8 * time.Millisecond, Multiplier: 2}))
			if err != nil {
				log.Print(err)
			}
		})
	}
	all.Wait()
	fmt.Println(counter)
	// Output: 4
}

// A permit that its holder does not give back, because its process has died, comes back by itself.
func ExampleRuntime_PermitSemaphore() {
	rt, end := newExample()
	defer end()
	ctx := context.Background()
	connections := rt.PermitSemaphore("connections")
	if _, err := connections.TrySetPermits(ctx, 2); err != nil {
		log.Fatal(err)
	}
	first, _ := connections.Acquire(ctx)
	second, _ := connections.Acquire(ctx)
	_, err := connections.TryAcquire(ctx)
	fmt.Println("a third:", errors.Is(err, holdfast.ErrNotAcquired))
	_ = first.Release(ctx)
	_ = second.Release(ctx)
	free, _ := connections.Available(ctx)
	fmt.Println("free:", free)
	// Output:
	// a third: true
	// free: 2
}
