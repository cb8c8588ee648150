package holdfast_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var rewriteTexts = flag.Bool("rewrite", false, "rewrite testdata/errors.txt")

// TestErrors_Texts causes an error in each situation, and compares the texts of the errors with testdata/errors.txt, which has no addresses and no
// ids. Each text alone must tell the user what to do.
func TestErrors_Texts(t *testing.T) {
	t.Parallel()
	texts := &errorTexts{t: t, server: redistest.Start(t)}
	texts.rt = locktest.NewRuntime(t, texts.server.Client(t), holdfast.Options{MaxWaiters: 1})
	texts.waiting()
	texts.holding()
	texts.invalid()
	texts.badOptions()
	texts.foreign()
	texts.rights()
	texts.sick()
	texts.closed()
	slices.Sort(texts.lines)
	got := strings.Join(texts.lines, "\n") + "\n"
	const file = "testdata/errors.txt"
	if *rewriteTexts {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	assert.Equal(t, read(t, file), got, "go test . -run TestErrors_Texts -rewrite rewrites it")
}

type errorTexts struct {
	t      *testing.T
	server *redistest.Server
	rt     *holdfast.Runtime
	lines  []string
}

var (
	anAddress = regexp.MustCompile(`127\.0\.0\.1:\d+(->127\.0\.0\.1:\d+)?`)
	anOwner   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:\d+)?`)
	aDuration = regexp.MustCompile(`\b\d+(\.\d+)?(ms|µs|s|m\d+s)\b`)
)

// add records the text of an error.
func (e *errorTexts) add(situation string, err error) {
	e.t.Helper()
	if !assert.Error(e.t, err, situation) {
		return
	}
	text := anOwner.ReplaceAllString(anAddress.ReplaceAllString(err.Error(), "ADDRESS"), "OWNER")
	if strings.Contains(situation, "(time)") {
		text = aDuration.ReplaceAllString(text, "TIME")
	}
	assert.NotContains(e.t, text, "\n")
	e.lines = append(e.lines, fmt.Sprintf("%-46s %s", situation, text))
}

func (e *errorTexts) lock() *holdfast.Lock { return e.rt.Lock("orders") }

func (e *errorTexts) waiting() {
	ctx := e.t.Context()
	lease := locktest.Acquire(e.t, e.lock())
	_, err := e.lock().TryAcquire(ctx)
	e.add("try: taken (time)", err)
	_, err = e.lock().Acquire(ctx, holdfast.WithWait(time.Second))
	e.add("acquire: wait elapsed (time)", err)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = e.lock().Acquire(ended)
	e.add("acquire: context ended before", err)
	pending := e.lock().AcquireAsync(ctx)
	locktest.Await(e.t, "the waiter", func() bool { state, _ := e.lock().Inspect(ctx); return state.Waiting == 1 })
	_, err = e.lock().Acquire(ctx)
	e.add("acquire: too many waiters", err)
	pending.Cancel()
	<-pending.Done()
	locktest.Release(e.t, lease)
	owner := e.rt.NewOwner()
	read := locktest.Acquire(e.t, e.rt.RWLock("book").Read(), holdfast.WithOwner(owner))
	_, err = e.rt.RWLock("book").Write().Acquire(ctx, holdfast.WithOwner(owner))
	e.add("write: its owner holds the read lock", err)
	locktest.Release(e.t, read)
	elsewhere := locktest.NewRuntime(e.t, e.server.Client(e.t), holdfast.Options{})
	lease = locktest.Acquire(e.t, elsewhere.Lock("orders"))
	_, err = e.lock().TryAcquire(ctx)
	e.add("try: taken by another runtime (time)", err)
	locktest.Release(e.t, lease)
	seats, permits := e.rt.Semaphore("seats"), e.rt.PermitSemaphore("permits")
	e.add("semaphore: never set", seats.TryAcquire(ctx, 1))
	_, err = seats.TrySetPermits(ctx, 0)
	require.NoError(e.t, err)
	e.add("semaphore: no permit", seats.TryAcquire(ctx, 1))
	_, err = permits.TryAcquire(ctx)
	e.add("permit semaphore: never set", err)
	require.NoError(e.t, permits.SetPermits(ctx, 0))
	_, err = permits.TryAcquire(ctx)
	e.add("permit semaphore: no permit", err)
	careful := locktest.NewRuntime(e.t, e.server.Client(e.t), holdfast.Options{AckReplicas: 1, AckTimeout: 50 * time.Millisecond})
	_, err = careful.Lock("orders").Acquire(ctx)
	e.add("acquire: not replicated", err)
}

func (e *errorTexts) holding() {
	ctx := e.t.Context()
	lease := locktest.Acquire(e.t, e.lock())
	locktest.Release(e.t, lease)
	e.add("release: again", lease.Release(ctx))
	e.add("lease.Err: released", lease.Err())
	fixed := locktest.AcquireBriefly(e.t, e.lock())
	<-fixed.Done()
	e.add("lease.Err: expired", fixed.Err())
	e.add("release: expired", fixed.Release(ctx))
	e.add("extend: expired", fixed.Extend(ctx, time.Second))
	lost := locktest.Acquire(e.t, e.lock())
	require.NoError(e.t, e.server.Client(e.t).Del(ctx, "orders").Err())
	e.add("release: gone from Redis", lost.Release(ctx))
	forced := locktest.Acquire(e.t, e.lock())
	_, err := e.lock().ForceRelease(ctx)
	require.NoError(e.t, err)
	e.add("release: force-released", forced.Release(ctx))
	renewed := locktest.Acquire(e.t, e.lock())
	e.add("extend: renewed by the watchdog", renewed.Extend(ctx, time.Second))
	locktest.Release(e.t, renewed)
}

func (e *errorTexts) invalid() {
	ctx := e.t.Context()
	for situation, name := range map[string]string{
		"empty": "", "control character": "a\nb", "no UTF-8": "a\xff", "one brace": "a{b", "two tags": "{a}{b}", "empty tag": "a{}", "long": strings.Repeat("x", 600),
	} {
		_, err := e.rt.Lock(name).TryAcquire(ctx)
		e.add("name: "+situation, err)
	}
	stranger := locktest.NewRuntime(e.t, e.server.Client(e.t), holdfast.Options{}).NewOwner()
	for situation, option := range map[string]holdfast.AcquireOption{
		"lease too short": holdfast.WithLease(time.Millisecond), "lease too long": holdfast.WithLease(25 * time.Hour), "no wait": holdfast.WithWait(0),
		"owner of another runtime": holdfast.WithOwner(stranger), "back-off of another kind": holdfast.WithBackoff(holdfast.Backoff{Initial: time.Second}),
	} {
		_, err := e.lock().Acquire(ctx, option)
		e.add("option: "+situation, err)
	}
	_, err := e.lock().TryAcquire(ctx, holdfast.WithWait(time.Second))
	e.add("option: a try that waits", err)
	e.add("do: no function", e.lock().Do(ctx, nil))
}

func (e *errorTexts) badOptions() {
	client := e.server.Client(e.t)
	_, err := holdfast.New(client, holdfast.Options{Lease: time.Millisecond, RenewBatch: -1, MaxWaiters: -1, PubSub: 9})
	e.add("new: options", err)
	_, err = holdfast.New(client, holdfast.Options{AckReplicas: 1, AckTimeout: 8 * time.Second})
	e.add("new: AckTimeout", err)
	_, err = holdfast.New(nil, holdfast.Options{})
	e.add("new: no client", err)
	ring := redis.NewRing(&redis.RingOptions{})
	_, err = holdfast.New(ring, holdfast.Options{})
	e.add("new: unsupported client", err)
	require.NoError(e.t, ring.Close())
	_, err = holdfast.New(client, holdfast.Options{PubSub: holdfast.PubSubSharded})
	e.add("new: sharded messages without a cluster", err)
}

func (e *errorTexts) foreign() {
	ctx, client := e.t.Context(), e.server.Client(e.t)
	require.NoError(e.t, client.Set(ctx, "text", "x", 0).Err())
	require.NoError(e.t, client.HSet(ctx, "rw", "mode", "read", locktest.Stranger(1), 1).Err())
	_, err := e.rt.Lock("text").TryAcquire(ctx)
	e.add("acquire: the key is a string", err)
	migrating := locktest.NewRuntime(e.t, client, holdfast.Options{Migrating: true})
	_, err = migrating.Lock("text").TryAcquire(ctx)
	e.add("acquire: the key is a string, migrating", err)
	require.NoError(e.t, client.RPush(ctx, "list", "x").Err())
	_, err = migrating.Lock("list").TryAcquire(ctx)
	e.add("acquire: the key is a list, migrating", err)
	_, err = inspect.Look(ctx, client, "text")
	e.add("look: the key is a string", err)
	require.NoError(e.t, client.PExpire(ctx, "text", time.Minute).Err())
	_, err = inspect.Look(ctx, client, "text")
	e.add("look: the key is a string that expires (time)", err)
	_, err = e.rt.Lock("rw").TryAcquire(ctx)
	e.add("acquire: the key is a read/write lock", err)
	require.NoError(e.t, client.SAdd(ctx, "redisson_lock_queue:{jobs}", "x").Err())
	_, err = e.rt.FairLock("jobs").TryAcquire(ctx)
	e.add("acquire: the key of the queue is a set", err)
	require.NoError(e.t, client.SAdd(ctx, "{rooms}:timeout", "x").Err())
	_, err = e.rt.PermitSemaphore("rooms").TryAcquire(ctx)
	e.add("acquire: the key of the permits is a set", err)
}

func (e *errorTexts) rights() {
	rt := asUser(e.t, e.server, []string{"~none:*", "&none:*", "+@all"}, holdfast.Options{})
	_, err := rt.Lock("orders").TryAcquire(e.t.Context())
	e.add("acquire: no right to the key", err)
	allowed := asUser(e.t, e.server, []string{"~*", "&*", "+@all", "-hset"}, holdfast.Options{})
	e.add("check: a right is missing", allowed.CheckFor(e.t.Context(), holdfast.KindLock, holdfast.KindFair))
	e.add("check: unknown kind", e.rt.CheckFor(e.t.Context(), "mutex"))
	wrong := locktest.ClientWith(e.t, &redis.Options{Addr: e.server.Addr(), Username: "nobody", Password: "wrong"})
	_, err = locktest.NewRuntime(e.t, wrong, holdfast.Options{}).Lock("orders").TryAcquire(e.t.Context())
	e.add("acquire: wrong password", err)
	e.add("check: wrong password", locktest.NewRuntime(e.t, wrong, holdfast.Options{}).Check(e.t.Context()))
}

func (e *errorTexts) sick() {
	ctx, admin := e.t.Context(), e.server.Client(e.t)
	lease := locktest.Acquire(e.t, e.rt.Lock("held"))
	require.NoError(e.t, admin.ReplicaOf(ctx, "127.0.0.1", "1").Err())
	_, err := e.lock().TryAcquire(ctx)
	e.add("acquire: a replica", err)
	e.add("check: a replica", e.rt.Check(ctx))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(e.t, admin.ReplicaOf(ctx, "no", "one").Err())
	require.NoError(e.t, lease.Release(ctx))
	require.NoError(e.t, admin.ConfigSet(ctx, "maxmemory", "1").Err())
	_, err = e.lock().TryAcquire(ctx)
	e.add("acquire: out of memory", err)
	e.add("check: out of memory", e.rt.CheckFor(ctx, holdfast.KindLatch))
	require.NoError(e.t, admin.ConfigSet(ctx, "maxmemory", "0").Err())
	down := locktest.NewRuntime(e.t, locktest.ClientWith(e.t, &redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}), holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	_, err = down.Lock("orders").TryAcquire(ctx)
	e.add("acquire: no server", err)
	e.add("check: no server", down.Check(ctx))
	_, err = e.lock().Inspect(ended)
	e.add("inspect: context ended before", err)
}

func (e *errorTexts) closed() {
	ctx := e.t.Context()
	held := locktest.Acquire(e.t, e.lock())
	ended, cancel := context.WithCancel(ctx)
	cancel()
	e.add("shutdown: still held", e.rt.Shutdown(ended))
	_, err := e.lock().Acquire(ctx)
	e.add("acquire: closed", err)
	e.add("lease.Err: closed", held.Err())
	e.add("check: closed", e.rt.Check(ctx))
}
