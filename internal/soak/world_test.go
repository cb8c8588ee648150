package soak_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// world is a server that keeps what it was told, the processes that use it, and what they share.
type world struct {
	t         *testing.T
	server    *redistest.Server
	redis     *redis.Client // to look with
	processes []*process
	things    []*thing
	counts    counts

	mu  sync.Mutex
	bad []string // what users saw that must not be
}

// wrong notes what must not be, until the next look.
func (w *world) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = append(w.bad, fmt.Sprintf(format, args...))
}

// counts are of what has happened since the last look.
type counts struct {
	granted, failed, lost, faults atomic.Int64
}

// process is a runtime on a link of its own. It may be closed at any time; then another one takes its place.
type process struct {
	proxy  *faultproxy.Proxy
	client *redis.Client
	rt     atomic.Pointer[holdfast.Runtime]
}

func newWorld(t *testing.T) *world {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	w := &world{t: t, server: server, redis: server.Client(t)}
	for range processes {
		p := &process{proxy: faultproxy.New(t, server.Addr())}
		w.start(p)
		w.processes = append(w.processes, p)
	}
	w.things = newThings(w)
	return w
}

// start gives a process a new runtime, which nothing keeps when it is closed.
func (w *world) start(p *process) {
	p.client = locktest.Unasking(&redis.Options{Addr: p.proxy.Addr()})
	rt, err := holdfast.New(p.client, holdfast.Options{
		Lease: lease, Logger: locktest.Quiet(), OnEvent: func(e holdfast.Event) {
			if _, lost := e.(holdfast.LeaseLost); lost {
				w.counts.lost.Add(1)
			}
		},
	})
	require.NoError(w.t, err)
	p.rt.Store(rt)
}

// end closes a process's runtime, whatever it holds, and however its link is.
func (w *world) end(p *process) {
	ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
	defer cancel()
	_ = p.rt.Load().Close(ctx) // it may not reach the server
	_ = p.client.Close()
}

func (w *world) close() {
	for _, p := range w.processes {
		w.end(p)
	}
}
