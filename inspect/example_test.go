package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
	"github.com/holdfast-go/holdfast/inspect"
)

// An operator looks at one lock and at all others, and frees one whose holder hangs.
func Example() {
	server, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	ctx, client := context.Background(), server.Client()
	rt, err := holdfast.New(client, holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rt.Close(ctx) }()
	lease, err := rt.RWLock("report:7").Write().Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}

	entry, err := inspect.Look(ctx, client, "report:7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q is a %s, held by this process: %t\n", entry.Name, entry.Kind, entry.Holders[0].ID == lease.ID())
	for entry, err := range inspect.List(ctx, client, inspect.ListOptions{Pattern: "report:*"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q: %d holder, %d waiting\n", entry.Name, len(entry.Holders), entry.Waiting)
	}
	freed, err := inspect.Free(ctx, client, "report:7")
	fmt.Println("freed:", freed, err)
	fmt.Println("the lease is lost:", errors.Is(lease.Release(ctx), holdfast.ErrLeaseLost))
	// Output:
	// "report:7" is a write lock, held by this process: true
	// "report:7": 1 holder, 0 waiting
	// freed: true <nil>
	// the lease is lost: true
}
