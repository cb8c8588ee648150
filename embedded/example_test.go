package embedded_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/embedded"
)

func Example() {
	server, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()

	ctx := context.Background()
	client := server.Client()
	client.Set(ctx, "greeting", "hello", time.Minute) // gone in a minute
	fmt.Println(client.Get(ctx, "greeting").Val())

	// Output: hello
}
