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

// A job begins once three parts are ready, no matter which processes made them.
func ExampleCountDownLatch() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
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

	parts := rt.CountDownLatch("parts")
	if _, err := parts.TrySetCount(ctx, 3); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		go func() {
			if err := parts.CountDown(ctx); err != nil { // in any process
				log.Print(err)
			}
		}()
	}
	if err := parts.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("all parts are ready")

	// Output:
	// all parts are ready
}

// All processes share three connections to a printer. Each takes what it needs and returns it.
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
	if _, err := printers.TrySetPermits(ctx, 3); err != nil { // the first process sets them
		log.Fatal(err)
	}
	if err := printers.Acquire(ctx, 2); err != nil { // waits until two are free at the same time
		log.Fatal(err)
	}
	if err := printers.TryAcquire(ctx, 2); errors.Is(err, holdfast.ErrNotAcquired) {
		fmt.Println("two are in use")
	}
	if err := printers.Release(ctx, 2); err != nil {
		log.Print(err) // Redis did not confirm in time; the runtime keeps trying
	}
	free, err := printers.Available(ctx)
	fmt.Println(free, err)

	// Output:
	// two are in use
	// 3 <nil>
}

// Each transfer locks two accounts, and transfers in opposite directions do not deadlock.
func ExampleMulti() {
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
	balance := map[string]int{"alice": 100, "bob": 100}
	transfer := func(from, to string, amount int) error {
		both := holdfast.Multi(rt.Lock("account:"+from), rt.Lock("account:"+to))
		return both.Do(ctx, func(context.Context) error {
			balance[from] -= amount
			balance[to] += amount
			return nil
		})
	}
	crossing := make(chan error)
	go func() { crossing <- transfer("bob", "alice", 30) }()
	err = transfer("alice", "bob", 10)
	fmt.Println(errors.Join(err, <-crossing), balance)

	lease, err := rt.Lock("account:bob").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	both := holdfast.Multi(rt.Lock("account:alice"), rt.Lock("account:bob"))
	_, err = both.TryAcquire(ctx)
	fmt.Println("one is taken:", errors.Is(err, holdfast.ErrNotAcquired))
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}

	// Output:
	// <nil> map[alice:120 bob:80]
	// one is taken: true
}

// A red lock locks one name on three independent servers. Two of them, a majority, are enough to hold it.
func ExampleRed() {
	ctx := context.Background()
	var locks []*holdfast.Lock
	for range 3 {
		server, err := embedded.Start() // in production: a Redis server on its own machine
		if err != nil {
			log.Fatal(err)
		}
		defer server.Close()
		rt, err := holdfast.New(server.Client(), holdfast.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer rt.Close(ctx)
		locks = append(locks, rt.Lock("leader"))
	}
	elsewhere, err := locks[0].Acquire(ctx) // one of the three locks is taken, as if its server were down
	if err != nil {
		log.Fatal(err)
	}
	lease, err := holdfast.Red(locks...).Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", lease.Valid())

	_, err = holdfast.Red(locks...).TryAcquire(ctx)
	fmt.Println("a second holder is refused:", errors.Is(err, holdfast.ErrNotAcquired))
	if err := errors.Join(lease.Release(ctx), elsewhere.Release(ctx)); err != nil {
		log.Fatal(err)
	}

	// Output:
	// held: true
	// a second holder is refused: true
}
