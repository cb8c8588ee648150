// Package guides has the code of the guides in doc, so that it is compiled and run.
package guides

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
)

var errBusy = errors.New("busy")

func do(ctx context.Context, lock *holdfast.Lock, work func(context.Context) error) error {
	return lock.Do(ctx, func(ctx context.Context) error {
		return work(ctx) // ctx ends if the lock is lost
	})
}

func tryDo(ctx context.Context, lock *holdfast.Lock, work func(context.Context) error) error {
	err := lock.TryDo(ctx, work)
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return nil // somebody else does it
	}
	return err
}

func acquire(ctx context.Context, lock *holdfast.Lock) (*holdfast.Lease, error) {
	lease, err := lock.Acquire(ctx, holdfast.WithWait(2*time.Second))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return nil, errBusy // it was taken for two seconds
	}
	return lease, err // whoever gets the lease releases it
}

func underALease(ctx context.Context, lock *holdfast.Lock, compute func(context.Context) (int, error), publish func(context.Context, int) error) error {
	lease, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(ctx) }() // also if ctx has ended

	held, cancel := lease.Context(ctx) // ends with the lease, so that long calls are given up in time
	defer cancel()
	price, err := compute(held)
	if err != nil {
		return err
	}
	if !lease.Valid() { // right before the effect: only the time that the effect takes is left
		return lease.Err()
	}
	return publish(held, price)
}

func Example() {
	server, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	rt, err := holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer func() { _ = rt.Close(ctx) }()
	lock := rt.Lock("orders")

	fmt.Println(do(ctx, lock, func(context.Context) error {
		return tryDo(ctx, lock, func(context.Context) error { return errors.New("nobody else has it") })
	}))
	lease, err := acquire(ctx, lock)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Valid(), lease.Release(ctx))
	fmt.Println(underALease(ctx, lock, func(context.Context) (int, error) { return 42, nil }, func(_ context.Context, price int) error {
		fmt.Println("price", price)
		return nil
	}))

	// Output:
	// <nil>
	// true <nil>
	// price 42
	// <nil>
}

// guides are the documents whose code is here.
var guides = []string{"choosing.md", "leases.md"}

func TestGuides_CodeIsOfThisFile(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("guides_test.go")
	require.NoError(t, err)
	for _, guide := range guides {
		document, err := os.ReadFile(filepath.Join("..", "..", "doc", guide))
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)<!-- code:(\\w+) -->\n```go\n(.*?)```").FindAllStringSubmatch(string(document), -1)
		assert.Len(t, blocks, strings.Count(string(document), "```go"), "%s: each block names its function", guide)
		for _, block := range blocks {
			function := regexp.MustCompile(`(?ms)^func ` + block[1] + `\(.*?\{\n(.*?)^\}`).FindStringSubmatch(string(source))
			if assert.NotNil(t, function, block[1]) {
				body := strings.ReplaceAll("\n"+function[1], "\n\t", "\n")
				assert.Equal(t, strings.TrimPrefix(body, "\n"), block[2], block[1])
			}
		}
	}
}
