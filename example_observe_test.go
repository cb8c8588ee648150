package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
)

// Who holds it, and who waits.
func ExampleLock_Inspect() {
	server, err := embedded.Start() // in production: a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rt, err := holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(context.Background())
	ctx := context.Background()

	lease, err := rt.Lock("orders").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	state, err := rt.Lock("orders").Inspect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state.Held, len(state.Holders), state.TTL > 0)
	fmt.Println(lease.Release(ctx))
	// Output:
	// true 1 true
	// <nil>
}

// An operator frees a lock. Its holder is told, and works on until it looks.
func ExampleLock_ForceRelease() {
	server, err := embedded.Start() // in production: a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rt, err := holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(context.Background())
	ctx := context.Background()

	lease, err := rt.Lock("orders").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	freed, err := rt.Lock("orders").ForceRelease(ctx)
	fmt.Println("freed:", freed, err)
	<-lease.Done()
	fmt.Println(errors.Is(lease.Release(ctx), holdfast.ErrLeaseLost))
	// Output:
	// freed: true <nil>
	// true
}

// What this process holds, for a debug page.
func ExampleRuntime_Held() {
	server, err := embedded.Start() // in production: a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rt, err := holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(context.Background())
	ctx := context.Background()

	lease, err := rt.Lock("orders").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for held := range rt.Held() {
		fmt.Println(held.Kind, held.Name)
	}
	stats := rt.Stats()
	fmt.Println("held:", stats.Held, "acquired:", stats.Acquired)
	fmt.Println(lease.Release(ctx))
	// Output:
	// lock orders
	// held: 1 acquired: 1
	// <nil>
}

// At the start of a program: is the server fit for locks, and may this user do all that is needed?
func ExampleRuntime_CheckFor() {
	server, err := embedded.Start() // in production: a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rt, err := holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(context.Background())
	ctx := context.Background()

	fmt.Println(rt.CheckFor(ctx, holdfast.KindLock, holdfast.KindFair))
	// Output:
	// <nil>
}

// Holders have a second to finish; nobody else gets a lock meanwhile.
func ExampleRuntime_Shutdown() {
	server, err := embedded.Start() // in production: a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rt, err := holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(context.Background())
	ctx := context.Background()

	lease, err := rt.Lock("orders").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { _ = lease.Release(ctx) })
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	fmt.Println(rt.Shutdown(limited))
	_, err = rt.Lock("orders").TryAcquire(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrClosed))
	// Output:
	// <nil>
	// true
}

// Counting acquires and what became of them. Module otelholdfast makes such a Trace for OpenTelemetry.
func ExampleTrace() {
	server, err := embedded.Start() // in production: a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rt, err := holdfast.New(server.Client(), holdfast.Options{Trace: &holdfast.Trace{
		Acquiring: func(_ context.Context, a holdfast.Acquiring) func(holdfast.Acquired) {
			return func(done holdfast.Acquired) { fmt.Println("acquire of", a.Name, "ended with", done.Err) }
		},
		Released: func(r holdfast.Released) { fmt.Println("released", r.Name) },
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(context.Background())
	if err := rt.Lock("orders").Do(context.Background(), func(context.Context) error { return nil }); err != nil {
		log.Fatal(err)
	}
	// Output:
	// acquire of orders ended with <nil>
	// released orders
}

// Events go to the log by default. OnEvent is for those that a program handles itself.
func ExampleOptions() {
	server, err := embedded.Start() // in production: a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	lost := make(chan holdfast.LeaseLost, 1)
	rt, err := holdfast.New(server.Client(), holdfast.Options{
		Lease:   10 * time.Second, // locks of crashed processes are free after that
		Process: holdfast.HostProcess("shop"),
		Logger:  slog.New(slog.DiscardHandler),
		OnEvent: func(e holdfast.Event) {
			if e, ok := e.(holdfast.LeaseLost); ok {
				lost <- e
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(context.Background())
	lease, err := rt.Lock("orders").Acquire(context.Background(), holdfast.WithLease(50*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	e := <-lost
	fmt.Println(e.Name, e.Reason, lease.Valid())
	// Output:
	// orders expired false
}
