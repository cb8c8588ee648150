package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
	"github.com/holdfast-go/holdfast/web"
)

// world is a Redis, services that use locks in it, and the page under /locks/.
type world struct {
	t       *testing.T
	client  redis.UniversalClient
	address string
}

func newWorld(t *testing.T, o web.Options) *world {
	server, err := embedded.Start()
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	w := &world{t: t, client: server.Client()}
	mux := http.NewServeMux()
	mux.Handle("/locks/", web.Handler(w.client, o))
	site := httptest.NewServer(mux)
	t.Cleanup(func() {
		site.CloseClientConnections()
		site.Close()
	})
	w.address = site.URL + "/locks/"
	return w
}

// process starts a process of a service.
func (w *world) process(name string) *holdfast.Runtime {
	w.t.Helper()
	rt, err := holdfast.New(w.client, holdfast.Options{Process: name, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = rt.Close(ctx)
	})
	return rt
}

// acquirer is any kind of lock.
type acquirer interface {
	Acquire(ctx context.Context, o ...holdfast.AcquireOption) (*holdfast.Lease, error)
}

func (w *world) hold(l acquirer, o ...holdfast.AcquireOption) *holdfast.Lease {
	w.t.Helper()
	lease, err := l.Acquire(w.t.Context(), o...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = lease.Release(context.Background()) }) // also keeps the lease reachable: a lease that is garbage-collected is released
	return lease
}

// wait starts a waiter for a lock. The waiter waits until the test ends.
func (w *world) wait(l acquirer) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if lease, err := l.Acquire(ctx); err == nil {
			_ = lease.Release(context.Background())
		}
	}()
	w.t.Cleanup(func() { cancel(); <-done })
}

// busy fills the world with the locks and waiters of a shop.
func (w *world) busy() {
	orders, billing, reports := w.process("orders@web-1:4021"), w.process("billing@pay-2:118"), w.process("reports@batch-1:77")
	w.hold(orders.Lock("order:10482"))
	w.hold(billing.FairLock("invoice:2026-11"))
	w.hold(reports.RWLock("catalogue").Read())
	w.hold(billing.RWLock("catalogue").Read())
	w.hold(reports.FencedLock("leader:nightly-export"))
	w.hold(orders.Lock("customer:8841:address"), holdfast.WithLease(95*time.Second))
	w.hold(billing.Lock("payment:ch_3PqX81"), holdfast.WithLease(2*time.Minute))
	w.hold(reports.Lock("report:weekly:2026-W47"), holdfast.WithLease(10*time.Minute))
	for i := range 9 {
		w.hold(orders.Lock(fmt.Sprintf("order:%d", 10483+7*i)), holdfast.WithLease(time.Duration(70+37*i*i%200)*time.Second))
	}
	shared := orders.PermitSemaphore("smtp-connections")
	require.NoError(w.t, shared.SetPermits(w.t.Context(), 8))
	for range 3 {
		w.hold(shared)
	}
	for i := range 6 {
		rt := w.process(fmt.Sprintf("orders@web-%d:40%d", i+2, 30+i))
		w.wait(rt.Lock("order:10482"))
		if i < 4 {
			w.wait(rt.FairLock("invoice:2026-11"))
		}
		if i < 2 {
			w.wait(rt.RWLock("catalogue").Write())
		}
	}
}

// hostile are names that a page may show wrongly. The last two are not UTF-8, so only programs other than Holdfast write them.
var hostile = []string{
	`<script>window.hacked = true</script>`,
	`"><img src=x onerror="window.hacked = true">`,
	`</td></tr></table><h1>gone</h1>`,
	`{{.}} ${1+1} &amp; &lt; %3Cb%3E +plus a=b;c#d?e/../f`,
	"tab\tand\nnewline\r\x00\x1b[31m\x7f",
	"\u202eevil\u2066 \u05d0\u05d1\u05d2 \u0627\u0644\u0642\u0641\u0644",
	"  two  spaces ",
	strings.Repeat("0123456789abcdef", 32),
	"\xff\xfe not UTF-8 \xc3(",
	"cut \xe2\x82",
}

const owner = "0b9ee048-07f2-4b95-a28a-f1d91418d5c8:1"

// takeHostile takes locks with hostile names, held by a process with a hostile name.
func (w *world) takeHostile() {
	for _, name := range hostile {
		require.NoError(w.t, w.client.HSet(w.t.Context(), name, owner, 1).Err())
	}
	w.hold(w.process(`<b onclick="window.hacked = true">evil`).Lock("held by a hostile process"))
}
