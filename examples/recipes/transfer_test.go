package recipes

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

var errTooLittle = errors.New("too little money")

// transfer moves money between two accounts while it holds the locks of both. Multi acquires them in its own order, so transfers in
// opposite directions do not wait for each other for ever.
func transfer(ctx context.Context, rt *holdfast.Runtime, accounts redis.UniversalClient, from, to string, amount int) error {
	both := holdfast.Multi(rt.Lock("lock:"+from), rt.Lock("lock:"+to))
	return both.Do(ctx, func(ctx context.Context) error {
		balance, err := accounts.Get(ctx, from).Int()
		if err != nil {
			return err
		}
		if balance < amount {
			return errTooLittle
		}
		_, err = accounts.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.DecrBy(ctx, from, int64(amount))
			p.IncrBy(ctx, to, int64(amount))
			return nil
		})
		return err
	})
}

// Two processes move money in opposite directions.
func Example_transfer() {
	rts, accounts, end := processes(2)
	defer end()
	ctx := context.Background()
	if err := accounts.MSet(ctx, "anna", 50, "bert", 50).Err(); err != nil {
		log.Fatal(err)
	}

	var transfers sync.WaitGroup
	for range 10 {
		transfers.Go(func() {
			if err := transfer(ctx, rts[0], accounts, "anna", "bert", 5); err != nil {
				log.Print(err)
			}
		})
		transfers.Go(func() {
			if err := transfer(ctx, rts[1], accounts, "bert", "anna", 3); err != nil {
				log.Print(err)
			}
		})
	}
	transfers.Wait()
	fmt.Println(accounts.MGet(ctx, "anna", "bert").Val())
	fmt.Println(transfer(ctx, rts[0], accounts, "anna", "bert", 31))

	// Output:
	// [30 70]
	// too little money
}
