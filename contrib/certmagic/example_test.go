package certmagic_test

import (
	"context"
	"fmt"
	"os"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
	holdmagic "github.com/holdfast-go/holdfast/contrib/certmagic"
	"github.com/holdfast-go/holdfast/embedded"
)

// The data stays where it was, and the locks are in Redis.
func ExampleWrap() {
	ctx := context.Background()
	server, err := embedded.Start() // in a service: its Redis
	if err != nil {
		panic(err)
	}
	defer func() { _ = server.Close() }()
	rt, err := holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = rt.Close(ctx) }()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	certmagic.Default.Storage = holdmagic.Wrap(&certmagic.FileStorage{Path: dir}, rt, "certmagic:")

	storage := certmagic.Default.Storage // certmagic calls it
	fmt.Println(storage.Lock(ctx, "issue_cert_example.com"))
	free, err := storage.(certmagic.TryLocker).TryLock(ctx, "issue_cert_example.com")
	fmt.Println(free, err)
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	// Output:
	// <nil>
	// false <nil>
	// <nil>
}
