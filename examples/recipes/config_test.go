package recipes

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
)

// A configuration consists of several keys. Many processes read it, and one changes it. Nobody reads a mixture of old and new values.
func Example_config() {
	rts, store, end := processes(2)
	defer end()
	ctx := context.Background()

	write := func(host, password string) error {
		return rts[0].RWLock("config").Write().Do(ctx, func(ctx context.Context) error {
			if err := store.Set(ctx, "host", host, 0).Err(); err != nil {
				return err
			}
			return store.Set(ctx, "password", password, 0).Err()
		})
	}
	read := func() (host, password string, err error) {
		err = rts[1].RWLock("config").Read().Do(ctx, func(ctx context.Context) error {
			if host, err = store.Get(ctx, "host").Result(); err != nil {
				return err
			}
			password, err = store.Get(ctx, "password").Result()
			return err
		})
		return host, password, err
	}
	if err := write("db-0", "secret of db-0"); err != nil {
		log.Fatal(err)
	}

	var mixed atomic.Int32
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() {
			if host, password, err := read(); err != nil || password != "secret of "+host {
				mixed.Add(1)
			}
		})
	}
	for i := range 5 {
		host := fmt.Sprint("db-", i+1)
		if err := write(host, "secret of "+host); err != nil {
			log.Fatal(err)
		}
	}
	readers.Wait()
	host, _, err := read()
	fmt.Println(host, mixed.Load(), "mixed", err)

	// Output:
	// db-5 0 mixed <nil>
}
