package actors

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/mailbox"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// received has the messages that an actor has received.
type received struct {
	messages []any
	queries  int // for leases
	stopped  bool
}

func (r *received) InvokeUserMessage(message any) {
	if m, ok := message.(routed); ok {
		if query, ok := m.message.(heldQuery); ok {
			r.queries++
			query.answer <- Held{Waiting: 7}
			return
		}
	}
	r.messages = append(r.messages, message)
}

func (*received) EscalateFailure(any, any) {}

func (r *received) InvokeSystemMessage(message any) {
	_, stop := message.(*actor.Stop)
	r.stopped = r.stopped || stop
}

// orders is the lock of the test actor.
var orders = &lease.Address{Kind: scripts.Lock, Name: "orders", Raw: "orders"}

// newTestRegistry returns a registry with one test actor, that actor, and the messages that it has received.
func newTestRegistry() (*registry, *member, *received) {
	e := &Engine{workers: &mailbox.Workers{}, clock: clock.NewSystem(), recorder: trace.New(clock.NewSystem(), nil, nil), shard: func(string) uint64 { return 0 }}
	e.registry = newRegistry(e)
	m, got := addTestActor(e.registry, orders)
	return e.registry, m, got
}

func addTestActor(r *registry, a *lease.Address) (*member, *received) {
	got := &received{}
	m := &member{shard: &r.shards[0], key: keyOf(a)}
	m.mailbox.RegisterHandlers(got, actor.NewSynchronizedDispatcher(300))
	m.mailbox.Start()
	m.shard.members[m.key] = m
	r.living.add()
	return m, got
}

func newAcquire(a *lease.Address) *wait.Request {
	return &wait.Request{Do: wait.Acquire, Address: a, Answered: make(chan struct{}, 1)}
}

// A sweep stops an actor only if its machine is idle, it was not used since the last sweep, and no message is on its way to it.
func TestRegistry_WhatIsOnItsWayKeepsAnActor(t *testing.T) {
	t.Parallel()
	r, m, got := newTestRegistry()
	request := newAcquire(orders)
	r.request(request)
	r.tell(orders, wait.CancelRequest{Request: request})
	require.False(t, m.handled(true, true), "the cancel is on its way")
	m.shard.sweep()
	require.False(t, m.handled(true, false))
	m.shard.sweep()
	require.False(t, m.handled(false, true))
	m.shard.sweep()
	r.tell(orders, wait.LookAround{})
	assert.Len(t, got.messages, 3, "it was used since the last sweep")
	m.shard.sweep()
	require.False(t, m.handled(true, true))
	m.shard.sweep()
	assert.False(t, got.stopped, "it was used since the last sweep")
	m.shard.sweep()
	r.tell(orders, wait.LookAround{})
	assert.Len(t, got.messages, 3, "the registry no longer knows the actor")
	assert.False(t, got.stopped, "another name may need it")
	m.shard.sweep()
	assert.True(t, got.stopped)
}

// spareActor returns a registry whose test actor is a spare.
func spareActor() (*registry, *member, *received) {
	r, m, got := newTestRegistry()
	m.handled(false, true)
	m.shard.sweep()
	return r, m, got
}

func TestRegistry_ASpareGetsAnotherName(t *testing.T) {
	t.Parallel()
	r, m, got := spareActor()
	invoices := &lease.Address{Kind: scripts.FairLock, Name: "invoices", Raw: "invoices"}
	request := newAcquire(invoices)
	r.request(request)
	r.tell(orders, wait.LookAround{})
	require.Equal(t, []any{request}, got.messages)
	m.shard.sweep()
	assert.False(t, got.stopped, "it is in use")
	require.False(t, m.handled(true, true))
	m.shard.sweep()
	m.shard.sweep()
	r.tell(invoices, wait.LookAround{})
	assert.Len(t, got.messages, 1, "it is a spare again")
	m.shard.sweep()
	assert.True(t, got.stopped)
}

func TestRegistry_CloseStopsSpares(t *testing.T) {
	t.Parallel()
	r, m, got := spareActor()
	r.enter(wait.Draining)
	assert.Empty(t, got.messages)
	assert.True(t, got.stopped)
	m.stopped()
	<-r.drained.zero
	r.enter(wait.Closing)
	<-r.living.zero
}

// While the runtime closes, a new request is refused, and a message about an earlier request still arrives. When the last actor has stopped,
// the engine is notified.
func TestRegistry_Closing(t *testing.T) {
	t.Parallel()
	r, m, got := newTestRegistry()
	first, second := newAcquire(orders), newAcquire(orders)
	r.request(first)
	r.enter(wait.Closing)
	r.request(second)
	require.Len(t, second.Answered, 1)
	assert.ErrorIs(t, second.Err, protocol.ErrClosed)
	r.tell(orders, wait.CancelRequest{Request: first})
	assert.Equal(t, []any{first, routed{wait.Close{Stage: wait.Closing}}, routed{wait.CancelRequest{Request: first}}}, got.messages)
	assert.False(t, m.handled(true, false))
	assert.False(t, m.handled(true, true), "the cancel is on its way")
	assert.True(t, m.handled(true, true))
	select {
	case <-r.living.zero:
		t.Error("the last actor has not stopped yet")
	default:
	}
	m.stopped()
	<-r.living.zero
}

// A Shutdown waits for the actors that existed when it began, and for no others.
func TestRegistry_Draining(t *testing.T) {
	t.Parallel()
	r, m, got := newTestRegistry()
	r.enter(wait.Draining)
	assert.Equal(t, []any{routed{wait.Close{Stage: wait.Draining}}}, got.messages)
	assert.False(t, m.handled(true, false), "its lock is held")
	assert.True(t, m.handled(false, true))
	m.stopped()
	<-r.drained.zero
}

// Every request is answered, even while sweeps stop its actor or rename it again and again, and even if a Close overtakes the request.
func TestRegistry_AnswersEveryRequest(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	defer client.Close()
	kinds := []*scripts.Kind{scripts.Lock, scripts.FencedLock, scripts.FairLock, scripts.WriteLock}
	for round := range 20 {
		e, err := Start(Config{
			Client: client, Logger: slog.New(slog.DiscardHandler), RenewBatch: 1,
			Policy: wait.Policy{Lease: time.Minute, HandoffMax: 10, MaxWaiters: 100},
		})
		require.NoError(t, err)
		e.registry.sweepEvery = time.Microsecond
		var answered, sent atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range 100 {
					a, err := e.Address(kinds[rand.IntN(len(kinds))], "name "+strconv.Itoa(rand.IntN(30)))
					assert.NoError(t, err)
					ctx, cancel := context.WithTimeout(context.Background(), rand.N(time.Millisecond))
					sent.Add(1)
					hold := &lease.Hold{}
					e.AcquireAsync(ctx, &a, wait.AcquireSpec{}, hold, func(err error) {
						answered.Add(1)
						if err == nil {
							assert.Equal(t, a.Name, hold.Address().Name)
							assert.Equal(t, a.Kind, hold.Address().Kind)
							e.ReleaseAsync(hold)
						}
					})
					if i%10 == round%10 {
						<-ctx.Done()
					}
					cancel()
				}
			})
		}
		if round%2 == 0 {
			all.Wait()
		}
		assert.NoError(t, e.Close(context.Background()))
		all.Wait()
		assert.Equal(t, sent.Load(), answered.Load())
		assert.Less(t, e.registry.spawned.Load(), uint64(sent.Load()), "actors are used again")
	}
}
