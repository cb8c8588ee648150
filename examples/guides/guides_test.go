// Package guides has the code of the guides in doc, so that it is compiled and run.
package guides

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/web"
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
	return lease, err // the caller releases it
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

func lead(ctx context.Context, rt *holdfast.Runtime, addr string, schedule func(context.Context, int64) error) error {
	election := rt.Election("scheduler", holdfast.ElectionOptions{Value: addr, Lease: 5 * time.Second})
	return election.Run(ctx, func(ctx context.Context, term holdfast.Term) error {
		return schedule(ctx, term.Token) // until ctx ends
	})
}

func look(ctx context.Context, client redis.UniversalClient) error {
	entry, err := inspect.Look(ctx, client, "orders") // kind, holders, TTL, queue, waiting, token, permits
	if err != nil {
		return err
	}
	fmt.Println(entry.Name, entry.Kind, entry.Holders, entry.TTL)
	for entry, err := range inspect.List(ctx, client, inspect.ListOptions{Contended: true}) { // or Pattern: "app:*"
		if err != nil {
			return err
		}
		fmt.Println(entry.Name, entry.Waiting)
	}
	processes, err := inspect.Processes(ctx, client) // those that have set Options.Process
	if err != nil {
		return err
	}
	freed, err := inspect.Free(ctx, client, "orders") // with the right script for its kind; wakes the waiters
	fmt.Println(len(processes), freed)
	return err
}

func mount(mux *http.ServeMux, client redis.UniversalClient, authenticated func(http.Handler) http.Handler) {
	mux.Handle("/locks/", authenticated(web.Handler(client, web.Options{})))
}

func placeOrder(ctx context.Context, rt *holdfast.Runtime) error {
	err := rt.Lock("orders").TryDo(ctx, func(context.Context) error { return nil })
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return errBusy
	}
	return err
}

func TestPlaceOrder_IsRefusedWhileAnotherProcessHasTheLock(t *testing.T) {
	server := holdfasttest.New(t)
	rt := server.Runtime() // as a process would have it

	free := server.HeldElsewhere("orders") // by another process
	require.ErrorIs(t, placeOrder(t.Context(), rt), errBusy)
	free()
	require.NoError(t, placeOrder(t.Context(), rt))
}

func TestLease_IsKeptForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		lease, err := server.Runtime().Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		<-time.After(time.Hour) // 360 renewals, in milliseconds
		assert.True(t, lease.Valid())
		require.NoError(t, lease.Release(t.Context()))
	})
}

// The code of the guides does what they say.
func TestGuides_CodeRuns(t *testing.T) {
	t.Parallel()
	server := holdfasttest.New(t)
	rt, client := server.Runtime(), server.Client()
	done := errors.New("done")
	require.ErrorIs(t, lead(t.Context(), rt, "10.0.0.7:80", func(_ context.Context, token int64) error {
		assert.Positive(t, token)
		return done
	}), done)

	lease, err := acquire(t.Context(), rt.Lock("orders"))
	require.NoError(t, err)
	require.NoError(t, look(t.Context(), client))
	require.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost, "it was freed")

	mux, asked := http.NewServeMux(), false
	mount(mux, client, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked = true; next.ServeHTTP(w, r) })
	})
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/locks/", nil))
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.True(t, asked)
}

// Each block of Go in doc is the body of a function that is compiled and run: here, or in the file that its mark names.
func TestGuides_CodeIsThatOfFunctions(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../doc/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, documents)
	mark := regexp.MustCompile("(?s)<!-- code:(\\w+)(?: of (\\S+))? -->\n```go\n(.*?)```")
	for _, document := range documents {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		blocks := mark.FindAllStringSubmatch(string(text), -1)
		assert.Len(t, blocks, strings.Count(string(text), "```go"), "%s: each block names its function", document)
		for _, block := range blocks {
			source, err := os.ReadFile(filepath.Join("..", "..", cmp.Or(block[2], "examples/guides/guides_test.go")))
			require.NoError(t, err)
			function := regexp.MustCompile(`(?ms)^func ` + block[1] + `\(.*?\{\n(.*?)^\}`).FindStringSubmatch(string(source))
			if assert.NotNil(t, function, block[1]) {
				body := strings.ReplaceAll("\n"+function[1], "\n\t", "\n")
				assert.Equal(t, strings.TrimPrefix(body, "\n"), block[3], block[1])
			}
		}
	}
}
