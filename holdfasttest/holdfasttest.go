// Package holdfasttest provides a Redis in memory for the tests of services that use locks. It needs no sockets, no ports and no installation.
//
//	func TestWorker(t *testing.T) {
//		redis := holdfasttest.New(t)
//		rt := redis.Runtime()
//		free := redis.HeldElsewhere("orders")
//		...
//	}
//
// A Server can hold locks as another process would, lose locks, cut a runtime off from Redis, and restart. In a bubble of testing/synctest the server
// runs on the bubble's clock, so an hour of renewals takes a fraction of a second. Call New inside the bubble, with the bubble's t.
//
// While a runtime is cut off, go-redis writes a line to stderr for each connection that it cannot make. To turn that off, call
// Disable of package github.com/redis/go-redis/v9/logging.
//
// The server is miniredis with its clock running. Package embedded lists how it differs from a real Redis. Do not move its time with functions of
// miniredis: the runtime would not notice.
package holdfasttest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/pipe"
)

// Server is a running Redis in memory. It ends with its test. Its methods are safe for concurrent use. Nevertheless, call them from the test's
// goroutine: a method that fails the test calls testing.TB.Fatalf, which only that goroutine may call.
type Server struct {
	t      testing.TB
	redis  *miniredis.Miniredis
	own    pipe.Link // link of the server's own client
	client *redis.Client
	other  func() *holdfast.Runtime // the runtime that plays the other process of HeldElsewhere; started by the first call

	mu    sync.Mutex
	links map[*holdfast.Runtime]*pipe.Link
	held  []*holdfast.Lease // leases of the other process; kept here, because a dropped lease would be released
}

// New starts an empty server. It ends with the test.
func New(t testing.TB) *Server {
	s := &Server{t: t, redis: pipe.NewServer(t), links: map[*holdfast.Runtime]*pipe.Link{}}
	s.client = s.own.Client(s.redis)
	t.Cleanup(func() {
		_ = s.client.Close()
		<-time.After(2 * time.Millisecond) // lets protoactor's timer for dead letters end: a synctest bubble must be empty at its end
	})
	end := func() {}
	t.Cleanup(func() { end() }) // runs after the test's runtimes are shut down, so that their waiters never get the locks of the other process
	s.other = sync.OnceValue(func() *holdfast.Runtime {
		rt, _, closeClient := s.start(holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
		end = func() {
			_ = rt.Close(context.Background())
			closeClient()
		}
		return rt
	})
	return s
}

// Client returns a client of the server, the same for every call. Cut does not affect it. It is closed when the test ends.
func (s *Server) Client() redis.UniversalClient { return s.client }

// Runtime returns a new runtime with a client of its own, as a process would have it. At most one Options may be given. The default Logger writes to
// the test's log.
//
// The runtime is shut down when the test ends. By then it should hold no lease: one that is not released within ten seconds fails the test, and the
// error names its lock. Fixed leases count, too.
func (s *Server) Runtime(o ...holdfast.Options) *holdfast.Runtime {
	s.t.Helper()
	var options holdfast.Options
	switch len(o) {
	case 0:
	case 1:
		options = o[0]
	default:
		s.t.Fatalf("holdfasttest: Runtime takes one Options, not %d", len(o))
	}
	rt, link, closeClient := s.start(options)
	s.t.Cleanup(func() {
		defer closeClient()
		link.Heal()
		ctx, cancel := context.WithTimeout(context.Background(), leftAfter)
		defer cancel()
		if err := rt.Shutdown(ctx); err != nil {
			s.t.Errorf("holdfasttest: the test has left a runtime that cannot be shut down: %v", err)
		}
	})
	return rt
}

// leftAfter is how long the shutdown of a runtime, at the end of the test, waits at most for the last leases to end.
const leftAfter = 10 * time.Second

// start makes a runtime and its client. Call closeClient after the runtime is closed.
func (s *Server) start(options holdfast.Options) (rt *holdfast.Runtime, link *pipe.Link, closeClient func()) {
	s.t.Helper()
	if options.Logger == nil {
		options.Logger = slog.New(slog.NewTextHandler(s.t.Output(), nil))
	}
	link = &pipe.Link{}
	client := link.Client(s.redis)
	closeClient = func() {
		_ = client.Close()
		link.AwaitEnd()
	}
	rt, err := holdfast.New(client, options)
	if err != nil {
		closeClient()
		s.t.Fatalf("holdfasttest: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[rt] = link
	return rt, link, closeClient
}

// HeldElsewhere makes another process acquire the lock with this name. That process renews its lease until the function free is called or the test
// ends. It holds a plain lock, but fair, fenced and spin locks of the same name wait for that lock, too. Read/write locks and semaphores of the same
// name report ErrForeignKey instead of waiting. To hold one of these elsewhere, acquire it with another Runtime. HeldElsewhere fails the test if the
// lock does not become free within 10 s. With Options.NameMapper, name is the mapped name.
func (s *Server) HeldElsewhere(name string) (free func()) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), elsewhereWait)
	defer cancel()
	lease, err := s.other().Lock(name).Acquire(ctx)
	var busy *holdfast.BusyError
	switch {
	case errors.As(err, &busy) && busy.Local:
		s.t.Fatalf("holdfasttest: the lock %q is held elsewhere already: first call the function that HeldElsewhere has returned", name)
	case err != nil:
		s.t.Fatalf("holdfasttest: the lock cannot be held elsewhere: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, lease)
	return func() { _ = lease.Release(context.Background()) } // fails if the lease has ended
}

const elsewhereWait = 10 * time.Second

// Lose deletes the key with this name, as an eviction or an operator would. The lock is then free in Redis at once. Its holder learns of the loss at
// the next renewal, within a third of the lease. The holder of a fixed lease may learn of it only when it releases the lock or the lease ends. With
// Options.NameMapper, name is the mapped name. Lose does not affect the acquired permits of a PermitSemaphore, because they are stored under another
// key. To take them back, use inspect.Free with the server's Client.
func (s *Server) Lose(name string) {
	s.t.Helper()
	s.redis.Del(name)
}

// Cut breaks the connections of the runtime to Redis, and refuses new ones until Heal.
func (s *Server) Cut(rt *holdfast.Runtime) {
	s.t.Helper()
	s.link(rt).Cut()
}

// Heal ends a Cut.
func (s *Server) Heal(rt *holdfast.Runtime) {
	s.t.Helper()
	s.link(rt).Heal()
}

func (s *Server) link(rt *holdfast.Runtime) *pipe.Link {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	link := s.links[rt]
	if link == nil {
		s.t.Fatalf("holdfasttest: the runtime is not one of this server's")
	}
	return link
}

// Restart acts like a restart of the server: it breaks all connections and forgets all scripts. If empty is true, the server also forgets all keys,
// as a server without persistence would. Runtimes that were cut off stay cut off.
func (s *Server) Restart(empty bool) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var whole []*pipe.Link
	for _, link := range s.links {
		if !link.IsCut() {
			link.Cut() // nothing gets through while the server is down
			whole = append(whole, link)
		}
	}
	if empty {
		s.redis.FlushAll()
	}
	if err := s.client.ScriptFlush(context.Background()).Err(); err != nil {
		s.t.Fatalf("holdfasttest: restart: %v", err)
	}
	s.own.Cut()
	s.own.Heal()
	for _, link := range whole {
		link.Heal()
	}
}
