package holdfast_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
)

// A job begins when three parts are there, wherever they come from.
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
	fmt.Println("all parts are there")

	// Output:
	// all parts are there
}
