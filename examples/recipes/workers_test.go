package recipes

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
)

// Twelve jobs in three processes use a service that can serve only two at a time. If a process crashes, its permits are freed ten seconds after
// their leases end.
func Example_workerPool() {
	rts, _, end := processes(3)
	defer end()
	ctx := context.Background()

	var running, most, done atomic.Int32
	job := func(context.Context) error {
		now := running.Add(1)
		defer running.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		done.Add(1)
		return nil
	}
	var workers sync.WaitGroup
	for _, rt := range rts {
		slots := rt.PermitSemaphore("service")
		if _, err := slots.TrySetPermits(ctx, 2); err != nil { // only the first process sets them
			log.Fatal(err)
		}
		for range 4 {
			workers.Go(func() {
				if err := slots.Do(ctx, job); err != nil {
					log.Print(err)
				}
			})
		}
	}
	workers.Wait()
	fmt.Println(done.Load(), "jobs, more than two at a time:", most.Load() > 2)

	// Output:
	// 12 jobs, more than two at a time: false
}
