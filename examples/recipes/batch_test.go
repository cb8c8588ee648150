package recipes

import (
	"context"
	"fmt"
	"log"
)

// Three processes work on the parts of a batch. When all parts are done, a fourth process writes the report.
func Example_batch() {
	rts, store, end := processes(4)
	defer end()
	ctx := context.Background()

	const parts = 3
	if _, err := rts[3].CountDownLatch("batch 1").TrySetCount(ctx, parts); err != nil { // before the work begins
		log.Fatal(err)
	}
	for part := range parts {
		go func() {
			if err := store.IncrBy(ctx, "rows", int64(100*(part+1))).Err(); err != nil { // the work
				log.Print(err)
				return // this part is not counted down, so the report is not written
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
