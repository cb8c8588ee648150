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

// Inspect says who holds a lock, and how many acquires of this process wait for it.
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

// An operator frees a lock. The holder's lease reports the loss.
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

// A debug page can show what this process holds.
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
	var all []holdfast.HeldLease
	for held := range rt.Held() {
		all = append(all, held)
	}
	fmt.Println(len(all), all[0].Kind, all[0].Name)
	fmt.Println(lease.Release(ctx))
	// Output:
	// 1 lock orders
	// <nil>
}

// CheckFor reports, when a program starts, whether the server is fit for locks and the Redis user has all rights that these kinds need.
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

// Holders have a second to finish; meanwhile the runtime refuses new acquires.
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

// A Trace that reports acquires with their outcomes, and releases. Module otelholdfast makes such a Trace for OpenTelemetry.
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

// Stats shows how many acquires did not need Redis, because another goroutine of this process passed the lock on.
func ExampleRuntime_Stats() {
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

	orders := rt.Lock("orders")
	first, err := orders.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second := orders.AcquireAsync(ctx) // waits for first
	if err := first.Release(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := second.Lease(); err != nil {
		log.Fatal(err)
	}
	stats := rt.Stats()
	fmt.Println("acquired:", stats.Acquired, "handed on:", stats.HandedOn, "held:", stats.Held)
	// Output:
	// acquired: 2 handed on: 1 held: 1
}

// Other processes should get the locks of this runtime soon, so the runtime passes a lock on at most twice before it gives the lock back to Redis.
func ExampleHandoff() {
	server, err := embedded.Start() // in production: a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rt, err := holdfast.New(server.Client(), holdfast.Options{
		Handoff: holdfast.Handoff{Max: 3, For: time.Millisecond},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	fmt.Println(rt.Lock("orders").Do(ctx, func(context.Context) error { return nil }))
	fmt.Println(rt.Close(ctx))
	// Output:
	// <nil>
	// <nil>
}

// On a cluster whose Redisson clients are set to plain messages, choose PubSubPlain. PubSubSharded is refused where there is no cluster.
func ExamplePubSubMode() {
	server, err := embedded.Start() // one server: messages are always plain
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	for _, mode := range []holdfast.PubSubMode{holdfast.PubSubPlain, holdfast.PubSubSharded} {
		rt, err := holdfast.New(server.Client(), holdfast.Options{PubSub: mode})
		fmt.Println(errors.Is(err, holdfast.ErrInvalid))
		if err == nil {
			_ = rt.Close(context.Background())
		}
	}
	// Output:
	// false
	// true
}
