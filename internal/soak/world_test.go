package soak_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/chaos"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// world is a Redis, the processes that use it, and what they share.
type world struct {
	t         *testing.T
	stage     stage
	redis     redis.UniversalClient // the test's own client
	troubles  []chaos.Fault         // of the servers
	begun     int                   // how many troubles have begun
	processes []*process
	things    []*thing
	counts    counts
	meter     meter
	password  password
	stalls    *locktest.Stalls // since the last fault

	mu  sync.Mutex
	bad []string // violations that users saw
}

// wrong records a violation. The next call of w.rest reports the violation.
func (w *world) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = append(w.bad, fmt.Sprintf(format, args...))
}

// counts has the numbers of what has happened since the last call of w.rest.
type counts struct {
	granted, failed, lost, faults atomic.Int64
	disturbed                     atomic.Int64 // connections of clients that a fault disturbed
	starved                       atomic.Int64 // calls that were repeated because the machine stalled
	forgetful, surprises          atomic.Int64 // failovers that may have lost the last writes, and how many of these the test did not cause
}

// stage is the servers of a world.
type stage interface {
	addrs() []string
	// client returns a client that reaches each server by the link for its address, and logs in with what the function `login` returns.
	client(links map[string]*faultproxy.Proxy, login func() (string, string)) redis.UniversalClient
	// everyone returns the test's own client for each server.
	everyone() []*redis.Client
	// masters returns clients of the servers that have keys.
	masters() []*redis.Client
	// troubles returns the faults of the servers. target returns the server into which the next fault is injected.
	troubles(w *world) []chaos.Fault
	target(dice *rand.Rand) chaos.Target
}

// process is a runtime with its own links. It may be closed at any time, and is then replaced.
type process struct {
	links  map[string]*faultproxy.Proxy
	client redis.UniversalClient
	rt     atomic.Pointer[holdfast.Runtime]
}

// link returns a random one of the process's links.
func (p *process) link() *faultproxy.Proxy {
	return p.links[slices.Sorted(maps.Keys(p.links))[rand.IntN(len(p.links))]]
}

func newWorld(t *testing.T, on stage, look redis.UniversalClient) *world {
	w := &world{t: t, stage: on, redis: look, meter: meter{known: map[*redis.Client]int64{}}}
	w.password.set(w)
	for range processes {
		p := &process{links: map[string]*faultproxy.Proxy{}}
		for _, addr := range on.addrs() {
			p.links[addr] = faultproxy.New(t, addr)
		}
		w.start(p)
		w.processes = append(w.processes, p)
	}
	w.things = newThings(w)
	w.troubles = on.troubles(w)
	return w
}

// start gives a process a new runtime and drops the closed one, so that the garbage collector can free it.
func (w *world) start(p *process) {
	p.client = w.stage.client(p.links, w.password.provide)
	rt, err := holdfast.New(p.client, holdfast.Options{
		Lease: lease, Linger: rand.N(lease / 8), Logger: locktest.Quiet(), OnEvent: func(e holdfast.Event) {
			if _, lost := e.(holdfast.LeaseLost); lost {
				w.counts.lost.Add(1)
			}
		},
	})
	require.NoError(w.t, err)
	p.rt.Store(rt)
}

// end closes a process's runtime, whatever it holds, and even if its links do not work.
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
