package faults_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

// newSystem returns an actor system that logs nothing. Tests give it to the runtime in Options.System, as a user may do with a system of their own.
func newSystem(t *testing.T, options ...actor.ConfigOption) *actor.ActorSystem {
	system := actor.NewActorSystem(append([]actor.ConfigOption{
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return locktest.Quiet() }),
		actor.WithDeadLetterThrottleInterval(time.Millisecond), // each throttle interval keeps a goroutine
	}, options...)...)
	t.Cleanup(system.Shutdown)
	return system
}

// asker is an actor that sends requests again and again, and counts the answers. A lock answers each request with one message, such as Granted,
// Refused or Released. A request to an actor that has ended comes back as protoactor's DeadLetterResponse.
type asker struct {
	place   *locktest.Place
	lock    *holdfast.Lock
	told    atomic.Int64 // number of orders to send requests
	asked   atomic.Int64
	granted atomic.Int64
	lost    atomic.Int64
	closed  atomic.Int64
	dead    atomic.Int64
	others  atomic.Int64
	strange atomic.Int64
}

type askAll struct{}

func (a *asker) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case askAll:
		a.askAll(c)
	case *protocol.Granted:
		a.granted.Add(1)
	case *protocol.Lost:
		a.lost.Add(1)
	case *protocol.Refused:
		a.count(m.Err)
	case *protocol.Released:
		a.count(m.Err)
	case *protocol.Renewed:
		a.count(m.Err)
	case *protocol.Inspected:
		a.count(m.Err)
	case *actor.DeadLetterResponse:
		a.dead.Add(1)
	case *actor.Started, *actor.Stopping, *actor.Stopped:
	default:
		a.strange.Add(1)
	}
}

func (a *asker) count(err error) {
	if errors.Is(err, holdfast.ErrClosed) {
		a.closed.Add(1)
	} else {
		a.others.Add(1)
	}
}

func (a *asker) askAll(c actor.Context) {
	id, kind, name := uint64(a.asked.Load()), protocol.Kind(a.place.Kind.Name), a.lock.Name()
	for _, request := range []any{
		&protocol.Acquire{ID: id + 1, Kind: kind, Lock: name}, &protocol.Release{ID: id + 2, Kind: kind, Lock: name, Serial: 1},
		&protocol.Renew{ID: id + 3, Kind: kind, Lock: name, Serial: 1, Lease: time.Second}, &protocol.Inspect{ID: id + 4, Kind: kind, Lock: name},
	} {
		a.asked.Add(1)
		c.Request(a.lock.PID(), request)
	}
}

func (a *asker) answers() int64 {
	return a.granted.Load() + a.closed.Load() + a.dead.Load() + a.others.Load()
}

// Each request made before, during and after the runtime's Close is answered, by the lock or by protoactor.
func TestFault_RequestsAreAnsweredWhileTheRuntimeCloses(t *testing.T) {
	t.Parallel()
	eachSort(t, func(t *testing.T, p *locktest.Place) {
		system := newSystem(t)
		for range locktest.Scaled(100, 10) {
			showAnswersOverClose(t, p.Another(t), system)
		}
	})
}

func showAnswersOverClose(t *testing.T, p *locktest.Place, system *actor.ActorSystem) {
	rt := p.Runtime(t, holdfast.Options{System: system})
	a := &asker{place: p, lock: p.Lock(rt)}
	pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return a }))
	var senders sync.WaitGroup
	ended := make(chan struct{})
	for range 2 {
		senders.Go(func() { a.keepAsking(system, pid, ended) })
	}
	locktest.Await(t, "the lock to be held", func() bool { return a.granted.Load() == 1 })

	require.NoError(t, rt.Close(context.Background()))

	locktest.Await(t, "requests to be made after the end", func() bool { return a.dead.Load() > 0 })
	close(ended)
	senders.Wait()
	locktest.Await(t, "everything to be answered", func() bool { return a.answers() >= 4*a.told.Load() })
	require.NoError(t, system.Root.PoisonFuture(pid).Wait())
	require.Equal(t, a.asked.Load(), a.answers(), "each request once")
	assert.Equal(t, int64(1), a.lost.Load(), "the lease that was held")
	assert.Zero(t, a.strange.Load())
	assert.False(t, p.Exists(t))
}

func (a *asker) keepAsking(system *actor.ActorSystem, pid *actor.PID, ended chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-time.After(50 * time.Microsecond):
			a.told.Add(1)
			system.Root.Send(pid, askAll{})
		}
	}
}

// Each request made before Close is answered exactly once, before Close returns. Protoactor answers later requests.
func TestFault_CloseTellsEveryRequester(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		system := newSystem(t)
		rt := p.Runtime(t, holdfast.Options{System: system})
		holder, waiting := locktest.NewActor(t, rt, p.Lock(rt)), locktest.NewActor(t, rt, p.Lock(rt))
		granted := p.Hold(t, holder, 1)
		for id := range uint64(100) {
			waiting.Ask(p.AcquireMessage(id))
		}
		p.WaitForWaiting(t, rt, 100)

		require.NoError(t, rt.Close(t.Context()))

		lost := locktest.Answer[*protocol.Lost](t, holder)
		assert.Equal(t, granted.Serial, lost.Serial)
		require.ErrorIs(t, lost.Err, holdfast.ErrClosed)
		assert.False(t, granted.Valid())
		assert.False(t, p.Exists(t))
		refused := map[uint64]bool{}
		for range 100 {
			answer := locktest.Answer[*protocol.Refused](t, waiting)
			refused[answer.ID] = true
			require.ErrorIs(t, answer.Err, holdfast.ErrClosed)
		}
		assert.Len(t, refused, 100, "each once")
		holder.Ask(p.ReleaseMessage(2, granted.Serial))
		locktest.Answer[*actor.DeadLetterResponse](t, holder)
		holder.Ask(p.AcquireMessage(3))
		locktest.Answer[*actor.DeadLetterResponse](t, holder)
	})
}
