package holdfast_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
)

// Do waits for the lock, runs the function while the lock is held, and releases the lock.
func Example() {
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

	err = rt.Lock("orders").Do(ctx, func(ctx context.Context) error {
		fmt.Println("nobody else does this now") // ctx ends if the lock is lost
		return nil
	})
	fmt.Println(err)
	// Output:
	// nobody else does this now
	// <nil>
}

// Waiters are served in order of arrival, across processes.
func ExampleRuntime_FairLock() {
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

// Waiters of a spin lock poll instead of listening for a release.
func ExampleRuntime_SpinLock() {
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

// One of several processes does the work, and another takes over when that process ends.
func ExampleElection() {
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
	scheduler := rt.Election("scheduler", holdfast.ElectionOptions{Value: "10.0.0.7:8080"})
	err = scheduler.Run(ctx, func(ctx context.Context, term holdfast.Term) error {
		leader, err := scheduler.Leader(ctx) // what any other process would see
		if err != nil {
			return err
		}
		fmt.Println("leading:", scheduler.IsLeader(), leader.Value, leader.Token == term.Token)
		return holdfast.ErrResign // a service would work until ctx ends
	})
	_, none := scheduler.Leader(ctx)
	fmt.Println(err, errors.Is(none, holdfast.ErrNoLeader))
	// Output:
	// leading: true 10.0.0.7:8080 true
	// <nil> true
}

// Every process can follow who leads.
func ExampleElection_Watch() {
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
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for _, value := range []string{"a", "b"} {
		candidate := rt.Election("scheduler", holdfast.ElectionOptions{Value: value})
		resign := make(chan struct{})
		var ran sync.WaitGroup
		ran.Go(func() {
			_ = candidate.Run(ctx, func(context.Context, holdfast.Term) error { <-resign; return holdfast.ErrResign })
		})
		for leader := range rt.Election("scheduler", holdfast.ElectionOptions{}).Watch(ctx) {
			fmt.Println("leader:", leader.Value)
			break
		}
		close(resign)
		ran.Wait()
	}
	// Output:
	// leader: a
	// leader: b
}

// A job starts on every replica at the same time, but only one should do it. The others skip it.
func ExampleLock_TryDo() {
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
	report := func(replica string) {
		err := rt.Lock("report").TryDo(ctx, func(ctx context.Context) error {
			fmt.Println(replica, "writes the report")
			return nil
		})
		if errors.Is(err, holdfast.ErrNotAcquired) {
			fmt.Println(replica, "skips it")
		}
	}
	other, _ := rt.Lock("report").Acquire(ctx)
	report("a")
	_ = other.Release(ctx)
	report("b")
	// Output:
	// a skips it
	// b writes the report
}

// A job that takes a millisecond runs once, although each process starts it at a slightly different time.
func ExampleWithAtLeast() {
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
	for process := range 3 { // their clocks differ a little
		err := rt.Lock("nightly-report").TryDo(ctx, func(context.Context) error {
			fmt.Println("process", process, "reports")
			return nil
		}, holdfast.WithAtLeast(time.Minute))
		if errors.Is(err, holdfast.ErrNotAcquired) {
			fmt.Println("process", process, "finds it done")
		}
	}
	// Output:
	// process 0 reports
	// process 1 finds it done
	// process 2 finds it done
}

// A job that hangs does not keep the lock for ever: its context ends, and others can acquire the lock.
func ExampleWithAtMost() {
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
	err = rt.Lock("import").Do(context.Background(), func(ctx context.Context) error {
		<-ctx.Done() // hangs
		return ctx.Err()
	}, holdfast.WithAtMost(50*time.Millisecond))
	fmt.Println(errors.Is(err, holdfast.ErrLeaseLost))
	// Output:
	// true
}

// With a short lease, this lock is free soon after a crash of its holder. The lease is renewed more often.
func ExampleWithRenewedLease() {
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
	lease, err := rt.Lock("gateway").Acquire(context.Background(), holdfast.WithRenewedLease(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(time.Until(lease.ExpiresAt()) < 10*time.Second)
	fmt.Println(lease.Release(context.Background()))
	// Output:
	// true
	// <nil>
}

// If the holder of a permit crashes, its permit is returned automatically.
func ExampleRuntime_PermitSemaphore() {
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
	connections := rt.PermitSemaphore("connections")
	if _, err := connections.TrySetPermits(ctx, 2); err != nil {
		log.Fatal(err)
	}
	first, _ := connections.Acquire(ctx)
	second, _ := connections.Acquire(ctx)
	_, err = connections.TryAcquire(ctx)
	fmt.Println("a third:", errors.Is(err, holdfast.ErrNotAcquired))
	_ = first.Release(ctx)
	_ = second.Release(ctx)
	free, _ := connections.Available(ctx)
	fmt.Println("free:", free)
	// Output:
	// a third: true
	// free: 2
}

// Each row of a table stores the largest token that has written it, and the UPDATE refuses smaller tokens. A holder may write as often
// as it likes, until the next holder has written. A holder that was paused past its lease and writes late changes nothing.
func ExampleRuntime_FencedLock() {
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
	db, err := sql.Open("example", "")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	write := func(token int64, balance int) {
		result, err := db.ExecContext(ctx, "UPDATE accounts SET balance = ?, token = ? WHERE id = 'alice' AND token <= ?", balance, token, token)
		if err != nil {
			log.Fatal(err)
		}
		rows, _ := result.RowsAffected()
		fmt.Println(balance, "rows changed:", rows)
	}

	lock := rt.FencedLock("accounts/alice")
	slow, _ := lock.Acquire(ctx)
	late := slow.Token() // the process of this holder is paused from here on; the release below stands for the end of its lease
	_ = slow.Release(ctx)
	next, _ := lock.Acquire(ctx)
	write(next.Token(), 100)
	write(next.Token(), 120)
	write(late, 50)
	_ = next.Release(ctx)
	// Output:
	// 100 rows changed: 1
	// 120 rows changed: 1
	// 50 rows changed: 0
}

// The following fake database has one row and supports only the statement above.

func init() { sql.Register("example", &account{}) }

type account struct{ balance, token int64 }

func (a *account) Open(string) (driver.Conn, error) { return a, nil }

func (a *account) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	balance, token, largest := args[0].Value.(int64), args[1].Value.(int64), args[2].Value.(int64)
	if a.token > largest {
		return driver.RowsAffected(0), nil
	}
	a.balance, a.token = balance, token
	return driver.RowsAffected(1), nil
}

func (a *account) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (a *account) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (a *account) Close() error                        { return nil }

// A writer updates shared data and then becomes a reader: it acquires the read lock before it releases the write lock. From then on, other
// readers may read too, and nobody has written in between.
func ExampleRuntime_RWLock() {
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
