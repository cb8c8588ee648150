package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
)

// The context of a lease ends with the lease, so that long work stops when the lock is lost.
func ExampleLease_Context() {
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
	held, cancel := lease.Context(ctx)
	defer cancel()
	fmt.Println("working:", held.Err())

	if _, err := rt.Lock("orders").ForceRelease(ctx); err != nil { // an operator takes the lock away
		log.Fatal(err)
	}
	<-held.Done()
	fmt.Println("lost:", errors.Is(context.Cause(held), holdfast.ErrLeaseLost), lease.Valid())
	// Output:
	// working: <nil>
	// lost: true false
}

// A fixed lease is not renewed. Extend sets how much longer it lasts.
func ExampleLease_Extend() {
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

	lease, err := rt.Lock("upload").Acquire(ctx, holdfast.WithLease(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	if err := lease.Extend(ctx, time.Minute); err != nil {
		log.Fatal(err)
	}
	fmt.Println(time.Until(lease.ExpiresAt()) > 50*time.Second)
	fmt.Println(lease.Release(ctx))
	// Output:
	// true
	// <nil>
}

// Done is for programs that wait for several things at once.
func ExampleLease_Done() {
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

	lease, err := rt.Lock("orders").Acquire(ctx, holdfast.WithLease(50*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	select {
	case <-lease.Done():
		fmt.Println("lost:", errors.Is(lease.Err(), holdfast.ErrLeaseLost))
	case <-time.After(time.Minute):
		fmt.Println("finished")
	}
	// Output:
	// lost: true
}

// A function deep in the call stack can get the lease that it runs under, here to use its fencing token.
func ExampleLeaseFromContext() {
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

	write := func(ctx context.Context, value string) {
		fmt.Println(value, "with a token:", holdfast.LeaseFromContext(ctx).Token() > 0)
	}
	err = rt.FencedLock("account").Do(ctx, func(ctx context.Context) error {
		write(ctx, "deposit")
		return nil
	})
	fmt.Println(err)
	// Output:
	// deposit with a token: true
	// <nil>
}

// An owner may acquire its lock again; the lock is free after the same number of releases. Do passes its owner on in the context.
func ExampleWithOwner() {
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

	owner := rt.NewOwner()
	first, err := rt.Lock("orders").Acquire(ctx, holdfast.WithOwner(owner))
	if err != nil {
		log.Fatal(err)
	}
	second, err := rt.Lock("orders").TryAcquire(ctx, holdfast.WithOwner(owner))
	fmt.Println("same owner:", err)
	_, err = rt.Lock("orders").TryAcquire(ctx)
	fmt.Println("another:", errors.Is(err, holdfast.ErrNotAcquired))
	fmt.Println(first.Release(ctx), second.Release(ctx))
	// Output:
	// same owner: <nil>
	// another: true
	// <nil> <nil>
}

// WithWait bounds the wait. Here somebody else has the lock for longer than that.
func ExampleWithWait() {
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

	holder, err := rt.Lock("orders").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = holder.Release(ctx) }()
	_, err = rt.Lock("orders").Acquire(ctx, holdfast.WithWait(20*time.Millisecond))
	fmt.Println(errors.Is(err, holdfast.ErrNotAcquired))
	// Output:
	// true
}

// The error of a refused acquire says who holds the lock. Local is true if this runtime holds it.
func ExampleBusyError() {
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

	holder, err := rt.Lock("orders").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = holder.Release(ctx) }()
	_, err = rt.Lock("orders").TryAcquire(ctx)
	var busy *holdfast.BusyError
	if errors.As(err, &busy) {
		fmt.Println("held by this process:", busy.Local, "for at least another second:", busy.TTL > time.Second)
	}
	// Output:
	// held by this process: true for at least another second: true
}

// A hundred acquires wait, without a goroutine for each.
func ExampleLock_AcquireAsync() {
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

	var waiting []*holdfast.Pending
	for range 100 {
		waiting = append(waiting, rt.Lock("orders").AcquireAsync(ctx))
	}
	for _, p := range waiting {
		lease, err := p.Lease() // waits until the lock is acquired
		if err != nil {
			log.Fatal(err)
		}
		if err := lease.Release(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(len(waiting), "acquires succeeded")
	// Output:
	// 100 acquires succeeded
}

// Cancel gives up a wait. If the lock is granted at the same moment, it is released again.
func ExamplePending_Cancel() {
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

	holder, err := rt.Lock("orders").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = holder.Release(ctx) }()
	pending := rt.Lock("orders").AcquireAsync(ctx)
	pending.Cancel()
	_, err = pending.Lease()
	fmt.Println(errors.Is(err, holdfast.ErrNotAcquired))
	// Output:
	// true
}

// Multi acquires both accounts or none. Callers may name the locks in any order.
func ExampleMultiLock_Do() {
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

	both := holdfast.Multi(rt.Lock("account:1"), rt.Lock("account:2"))
	err = both.Do(ctx, func(ctx context.Context) error {
		fmt.Println("transfer")
		return nil
	})
	fmt.Println(err)
	// Output:
	// transfer
	// <nil>
}

// EscapeName makes a legal name from any text, such as user input.
func ExampleEscapeName() {
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

	fmt.Println(holdfast.EscapeName("orders/{7}\n"))
	err = rt.Lock(holdfast.EscapeName("orders/{7}\n")).Do(ctx, func(context.Context) error { return nil })
	fmt.Println(err)
	// Output:
	// orders/%7B7%7D%0A
	// <nil>
}

// A function that holds the lock calls another one that acquires it, too. With the context of Do, the second Do re-enters.
func ExampleLock_Do() {
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
	reprice := func(ctx context.Context) error {
		return orders.Do(ctx, func(context.Context) error {
			fmt.Println("repriced")
			return nil
		})
	}
	err = orders.Do(ctx, func(ctx context.Context) error {
		fmt.Println("loaded")
		return reprice(ctx)
	})
	fmt.Println(err)
	// Output:
	// loaded
	// repriced
	// <nil>
}

// Unlike Do, Acquire leaves the release to its caller. Release the lease even if ctx has ended.
func ExampleLock_Acquire() {
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
	defer func() {
		fmt.Println("released:", lease.Release(ctx))
	}()
	fmt.Println(lease.Name(), "is held:", lease.Valid(), lease.Err())
	// Output:
	// orders is held: true <nil>
	// released: <nil>
}

// Each option changes one acquire. The two options below are for work that may hang: wait for a second at most, and hold for a minute at most.
func ExampleAcquireOption() {
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

	limits := []holdfast.AcquireOption{holdfast.WithWait(time.Second), holdfast.WithAtMost(time.Minute)}
	err = rt.Lock("import").Do(ctx, func(context.Context) error {
		fmt.Println("imported")
		return nil
	}, limits...)
	fmt.Println(err)
	// Output:
	// imported
	// <nil>
}
