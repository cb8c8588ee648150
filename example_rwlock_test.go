package holdfast_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
)

// A writer renews what many read, and goes on reading what it has written: others may read then, too, but nobody writes in between.
func ExampleRuntime_RWLock() {
	rt, end := newExample()
	defer end()
	ctx := context.Background()
	prices := rt.RWLock("prices")
	me := holdfast.WithOwner(rt.NewOwner())

	writing, err := prices.Write().Acquire(ctx, me)
	if err != nil {
		log.Fatal(err)
	}
	_, err = prices.Read().TryAcquire(ctx)
	fmt.Println("another reads while I write:", err == nil)

	reading, err := prices.Read().Acquire(ctx, me)
	if err != nil {
		log.Fatal(err)
	}
	_ = writing.Release(ctx)
	other, err := prices.Read().TryAcquire(ctx)
	fmt.Println("another reads while I read:", err == nil)
	_, err = prices.Write().TryAcquire(ctx)
	fmt.Println("another writes while we read:", err == nil)

	_ = other.Release(ctx)
	_ = reading.Release(ctx)
	// Output:
	// another reads while I write: false
	// another reads while I read: true
	// another writes while we read: false
}
