// Command start holds a lock until it is interrupted. Run it in two terminals: see doc/start.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	server, err := redis.ParseURL(cmp.Or(os.Getenv("HOLDFAST_REDIS"), "redis://localhost:6379"))
	if err != nil {
		return err
	}
	client := redis.NewClient(server)
	rt, err := holdfast.New(client, holdfast.Options{
		Process:  holdfast.HostProcess("start"), // the name of this process, shown to people who look at its locks
		SlowWait: 5 * time.Second,               // an acquire that waits longer logs the holder, once
	})
	if err != nil {
		return err
	}
	defer func() { // ctx may have ended, so the shutdown needs a new one
		ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, rt.Shutdown(ending), client.Close())
	}()
	if err := rt.Check(ctx); err != nil {
		return err
	}

	fmt.Println("waiting for the lock")
	return rt.Lock("orders").Do(ctx, func(ctx context.Context) error {
		fmt.Println("got the lock; Ctrl-C releases it")
		<-ctx.Done() // the work: it ends with Ctrl-C, or if the lock is lost
		fmt.Println("the end:", context.Cause(ctx))
		return nil
	})
}
