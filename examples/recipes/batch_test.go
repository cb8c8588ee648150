package recipes

import (
	"context"
	"fmt"
	"log"
)

// A batch is split into parts that three processes work on. The report is written once all parts are done, by a fourth process.
func Example_batch() {
	rts, store, end := processes(4)
	defer end()
	ctx := context.Background()

	const parts = 3
	if _, err := rts[3].CountDownLatch("batch 1").TrySetCount(ctx, parts); err != nil { // before the work is given out
		log.Fatal(err)
	}
	for part := range parts {
		go func() {
			if err := store.IncrBy(ctx, "rows", int64(100*(part+1))).Err(); err != nil { // the work
				log.Print(err)
				return // not counted down: the report does not begin
			}
			if err := rts[part].CountDownLatch("batch 1").CountDown(ctx); err != nil {
				log.Print(err)
			}
		}()
	}

	if err := rts[3].CountDownLatch("batch 1").Wait(ctx); err != nil {
		log.Fatal(err)
	}
	rows, err := store.Get(ctx, "rows").Int()
	fmt.Println(rows, "rows", err)

	// Output:
	// 600 rows <nil>
}
