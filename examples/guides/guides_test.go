// Package guides has the code of the guides in doc, so that it is compiled and run.
package guides

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
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

func do(ctx context.Context, lock *holdfast.Lock, work func(context.Context) error) error {
	return lock.Do(ctx, func(ctx context.Context) error {
		return work(ctx) // ctx ends if the lock is lost
	})
}

func tryDo(ctx context.Context, lock *holdfast.Lock, work func(context.Context) error) error {
	err := lock.TryDo(ctx, work)
	if _, taken := errors.AsType[*holdfast.BusyError](err); taken {
		return nil // somebody else does it
	}
	return err
}

func acquire(ctx context.Context, lock *holdfast.Lock) (*holdfast.Lease, error) {
	lease, err := lock.Acquire(ctx, holdfast.WithWait(2*time.Second))
	if _, taken := errors.AsType[*holdfast.BusyError](err); taken {
		return nil, errBusy // an error of the program: others had the lock for two seconds
	}
	return lease, err // the caller must release the lease
}

func underALease(ctx context.Context, lock *holdfast.Lock, compute func(context.Context) (int, error), publish func(context.Context, int) error) (err error) {
	lease, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release(ctx)) }() // ErrLeaseLost if it was lost

	held, cancel := lease.Context(ctx) // ends with the lease, so calls that use it end, too
	defer cancel()
	price, err := compute(held)
	if err != nil {
		return err
	}
	if !lease.Valid() { // immediately before the side effect
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

func serve(ctx context.Context, server *http.Server, listener net.Listener, rt *holdfast.Runtime, client redis.UniversalClient) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done(): // SIGTERM, by signal.NotifyContext
	}
	ending, cancel := context.WithTimeout(context.Background(), 20*time.Second) // a new context: ctx has ended
	defer cancel()
	return errors.Join(
		server.Shutdown(ending), // no new requests; those in progress finish, and release their locks
		rt.Shutdown(ending),     // no new acquires; other holders finish
		client.Close(),          // last, because both need it
	)
}

func listen(handle func(event string, lock string)) holdfast.Options {
	return holdfast.Options{OnEvent: func(e holdfast.Event) {
		switch e := e.(type) {
		case holdfast.LeaseLost:
			handle("lost: "+string(e.Reason), e.Lock())
		case holdfast.LeaseLeaked:
			handle("never released", e.Lock()) // a bug of the program
		}
	}}
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

func TestLease_IsKeptForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		lease, err := server.Runtime().Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		<-time.After(time.Hour) // 360 renewals, in a fraction of a second
		assert.True(t, lease.Valid())
		require.NoError(t, lease.Release(t.Context()))
	})
}

// All ways to acquire distinguish an outage from a lock that somebody else holds, and report a lost lock.
func TestGuides_ErrorsTellTheTruth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		rt := server.Runtime()
		lock := rt.Lock("orders")
		work := func(context.Context) error { return nil }

		free := server.HeldElsewhere("orders")
		_, err := acquire(t.Context(), lock)
		require.ErrorIs(t, err, errBusy)
		require.NoError(t, tryDo(t.Context(), lock, work))
		free()

		server.Cut(rt)
		_, err = acquire(t.Context(), lock)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.NotErrorIs(t, err, errBusy)
		require.Error(t, tryDo(t.Context(), lock, work))
		server.Heal(rt)

		err = underALease(t.Context(), lock, func(ctx context.Context) (int, error) {
			server.Lose("orders")
			<-ctx.Done()
			return 0, ctx.Err()
		}, nil)
		require.ErrorIs(t, err, holdfast.ErrLeaseLost)
	})
}

// The code of the guides does what the guides say.
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

// A server that is shut down lets a request finish under its lock, and then closes the runtime.
func TestServe_EndsInOrder(t *testing.T) {
	t.Parallel()
	redisServer := holdfasttest.New(t)
	rt := redisServer.Runtime()
	ctx, terminate := context.WithCancel(t.Context())
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := rt.Lock("orders").Do(r.Context(), func(context.Context) error {
			terminate() // while the request holds the lock
			return nil
		})
		_, _ = fmt.Fprint(w, err)
	})}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, server, listener, rt, redisServer.Client()) }()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, "<nil>", string(text))
	require.NoError(t, <-ended)
	_, err = rt.Lock("orders").TryAcquire(t.Context())
	assert.ErrorIs(t, err, holdfast.ErrClosed)
}

// A lost lease is reported to the function of doc/observing.md.
func TestListen_HearsOfALostLease(t *testing.T) {
	t.Parallel()
	server := holdfasttest.New(t)
	heard := make(chan string, 1)
	rt := server.Runtime(listen(func(event, lock string) { heard <- lock + " " + event }))
	_, err := rt.Lock("orders").Acquire(t.Context())
	require.NoError(t, err)
	_, err = rt.Lock("orders").ForceRelease(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "orders lost: force-released", <-heard)
}

// Each block of Go in doc is the body of a function that is compiled and run, or a whole file without its package comment. In the document, a comment
// above the block names the function or the file. A function is in this file, unless that comment also names another file.
func TestGuides_CodeIsThatOfFunctions(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../doc/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, documents)
	mark := regexp.MustCompile("(?s)<!-- (?:code:(\\w+)(?: of (\\S+))?|file:(\\S+)) -->\n```go\n(.*?)```")
	for _, document := range documents {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		blocks := mark.FindAllStringSubmatch(string(text), -1)
		assert.Len(t, blocks, strings.Count(string(text), "```go"), "%s: each block names its function or file", document)
		for _, block := range blocks {
			source, err := os.ReadFile(filepath.Join("..", "..", cmp.Or(block[2], block[3], "examples/guides/guides_test.go")))
			require.NoError(t, err)
			if block[3] != "" {
				assert.Equal(t, string(source[strings.Index(string(source), "package "):]), block[4], document)
				continue
			}
			function := regexp.MustCompile(`(?ms)^func ` + block[1] + `\(.*?\{\n(.*?)^\}`).FindStringSubmatch(string(source))
			if assert.NotNil(t, function, block[1]) {
				body := strings.ReplaceAll("\n"+function[1], "\n\t", "\n")
				assert.Equal(t, strings.TrimPrefix(body, "\n"), block[4], block[1])
			}
		}
	}
}

// Each block of Go in the adapters' READMEs is part of their examples, except for the imports.
func TestGuides_CodeOfAdaptersIsThatOfTheirExamples(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../contrib/*/README.md")
	require.NoError(t, err)
	require.NotEmpty(t, documents)
	imports := regexp.MustCompile(`(?ms)^import \(.*?^\)\n+`)
	for _, document := range documents {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		examples, err := os.ReadFile(filepath.Join(filepath.Dir(document), "example_test.go"))
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, blocks, document)
		for _, block := range blocks {
			assert.Contains(t, unindented(string(examples)), unindented(imports.ReplaceAllString(block[1], "")), document)
		}
	}
}

// unindented returns a text without the tabs at the beginning of its lines.
func unindented(text string) string { return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "") }
