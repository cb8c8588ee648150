package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
)

// Three connections to a printer, whoever uses them: processes take what they need and give it back.
func ExampleSemaphore() {
	ctx := context.Background()
	server, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rt, err := holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(ctx)

	printers := rt.Semaphore("printers")
	if _, err := printers.TrySetPermits(ctx, 3); err != nil { // whoever comes first sets them
		log.Fatal(err)
	}
	if err := printers.Acquire(ctx, 2); err != nil { // waits until two are free together
		log.Fatal(err)
	}
	if err := printers.TryAcquire(ctx, 2); errors.Is(err, holdfast.ErrNotAcquired) {
		fmt.Println("two are in use")
	}
	if err := printers.Release(ctx, 2); err != nil {
		log.Print(err) // Redis did not confirm in time; the runtime goes on trying
	}
	free, err := printers.Available(ctx)
	fmt.Println(free, err)

	// Output:
	// two are in use
	// 3 <nil>
}
