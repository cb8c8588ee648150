package faults_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

// blocker blocks its senders until its function `release` is called. It stands for all the ways in which an actor can block its senders.
type blocker struct {
	open    chan struct{}
	inside  chan struct{} // one per message that has blocked, up to a hundred
	release func()
}

func newBlocker(t *testing.T) *blocker {
	b := &blocker{open: make(chan struct{}), inside: make(chan struct{}, 100)}
	b.release = sync.OnceFunc(func() { close(b.open) })
	t.Cleanup(b.release)
	return b
}

// block is called while a message is handled. It returns when `release` has been called.
func (b *blocker) block() {
	select {
	case b.inside <- struct{}{}:
	default:
	}
	<-b.open
}

// process is a protoactor process that the user has registered.
type process struct {
	*blocker
	answers chan any
}

func (q process) SendUserMessage(_ *actor.PID, message any) {
	q.block()
	q.answers <- message
}
func (q process) SendSystemMessage(*actor.PID, any) { q.block() }
func (q process) Stop(*actor.PID)                   {}

// blocked makes requesters that block every sender of an answer. The test sends the requests in the name of the requester. It cannot tell the
// requester to send them, because such a message would block the test, too.
var blocked = map[string]func(t *testing.T, rt *holdfast.Runtime, p *locktest.Place, b *blocker) (*actor.PID, chan any){
	"synchronized dispatcher": func(t *testing.T, rt *holdfast.Runtime, p *locktest.Place, b *blocker) (*actor.PID, chan any) {
		a := locktest.ActorThat(t, rt, p.Lock(rt), blockOnAnswers(b), actor.WithDispatcher(actor.NewSynchronizedDispatcher(300)))
		return a.PID, a.Answers
	},
	"full mailbox": func(t *testing.T, rt *holdfast.Runtime, p *locktest.Place, b *blocker) (*actor.PID, chan any) {
		a := locktest.ActorThat(t, rt, p.Lock(rt), blockOnAnswers(b), actor.WithMailbox(actor.Bounded(2)))
		return a.PID, a.Answers
	},
	"own process": func(t *testing.T, rt *holdfast.Runtime, p *locktest.Place, b *blocker) (*actor.PID, chan any) {
		q := process{b, make(chan any, 100)}
		pid, added := rt.System().ProcessRegistry.Add(q, "process-"+p.Name)
		require.True(t, added)
		t.Cleanup(func() { rt.System().ProcessRegistry.Remove(pid) })
		return pid, q.answers
	},
}

func blockOnAnswers(b *blocker) func(actor.Context) {
	return func(c actor.Context) {
		switch c.Message().(type) {
		case *protocol.Granted, *protocol.Refused, *protocol.Released, *protocol.Renewed, *protocol.Inspected, *protocol.Lost:
			b.block()
		}
	}
}

// siege is a runtime with a requester that blocks.
type siege struct {
	*blocker
	place   *locktest.Place
	rt      *holdfast.Runtime
	events  locktest.Recorder
	pid     *actor.PID
	answers chan any
}

// ask sends a message in the name of the requester.
func (s *siege) ask(message any) {
	s.rt.System().Root.RequestWithCustomSender(s.place.Lock(s.rt).PID(), message, s.pid)
}

func (s *siege) inspect(id uint64) *protocol.Inspect {
	return &protocol.Inspect{ID: id, Kind: protocol.Kind(s.place.Kind.Name), Lock: s.place.Name}
}

// eachBlocked runs `show` for every way in which a requester can block, and for both sorts of lock actor (see eachSort).
func eachBlocked(t *testing.T, show func(t *testing.T, s *siege)) {
	for name := range blocked {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachSort(t, func(t *testing.T, p *locktest.Place) { show(t, newSiege(t, p, name)) })
		})
	}
}

func newSiege(t *testing.T, p *locktest.Place, requester string) *siege {
	s := &siege{place: p}
	options := holdfast.Options{Lease: shortLease, OnEvent: s.events.Record, Logger: locktest.Quiet(), System: newSystem(t)}
	var err error
	s.rt, err = holdfast.New(locktest.NewClient(t, p.Addr), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.rt.Close(context.Background()) }) // if a test has closed the runtime already, Close returns the same error again
	s.blocker = newBlocker(t)
	s.pid, s.answers = blocked[requester](t, s.rt, p, s.blocker)
	t.Cleanup(s.release)
	return s
}

// A requester blocks the delivery of a lock's answers. The lock still serves other callers, and its leases are still renewed. When the requester
// stops blocking, it gets the answers in order.
func TestFault_RequesterThatBlocksKeepsNobody(t *testing.T) {
	t.Parallel()
	eachBlocked(t, func(t *testing.T, s *siege) {
		p, lock := s.place, s.place.Lock(s.rt)
		kept := locktest.Acquire(t, lock)
		for id := range uint64(20) {
			s.ask(s.inspect(id))
		}
		<-s.inside
		renewed(t, p, kept.Valid)
		locktest.Release(t, kept)
		for range 10 { // the same lock and others
			locktest.Release(t, locktest.Acquire(t, lock))
			locktest.Release(t, locktest.Acquire(t, p.Another(t).Lock(s.rt)))
		}
		locktest.Await(t, "the report", func() bool { return len(locktest.Recorded[holdfast.RequesterBlocked](&s.events)) == 1 })

		s.release()

		for id := range uint64(20) {
			require.Equal(t, id, locktest.Next[*protocol.Inspected](t, s.answers).ID)
		}
		assert.Len(t, locktest.Recorded[holdfast.RequesterBlocked](&s.events), 1, "once")
	})
}

// An actor that blocks the delivery of its grant still holds the lock. If it loses the lock meanwhile, it gets one Lost, after the grant.
func TestFault_RequesterThatBlocksHoldsOn(t *testing.T) {
	t.Parallel()
	eachBlocked(t, func(t *testing.T, s *siege) {
		p := s.place
		s.ask(p.AcquireMessage(1))
		<-s.inside
		waiting := locktest.NewActor(t, s.rt, p.Lock(s.rt))
		waiting.Ask(p.AcquireMessage(1))
		p.WaitForWaiting(t, s.rt, 1)
		renewed(t, p, nil)
		forced, err := p.Lock(s.rt).ForceRelease(t.Context())
		require.NoError(t, err)
		require.True(t, forced)
		granted := locktest.Answer[*protocol.Granted](t, waiting)
		waiting.Ask(p.ReleaseMessage(2, granted.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, waiting).Err)

		s.release()

		first := locktest.Next[*protocol.Granted](t, s.answers)
		locktest.Await(t, "the loss", func() bool { return !first.Valid() })
		assert.Equal(t, first.Serial, locktest.Next[*protocol.Lost](t, s.answers).Serial)
		locktest.Await(t, "the key to go", func() bool { return !p.Exists(t) })
		assert.Empty(t, s.answers)
	})
}

// Close releases everything, waits for a moment, and names the actors that still block.
func TestFault_CloseDoesNotWaitForARequesterThatBlocks(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "lock")
	s := newSiege(t, p, "synchronized dispatcher")
	s.ask(p.AcquireMessage(1))
	<-s.inside
	for id := range uint64(5) {
		s.ask(s.inspect(id))
	}
	lease := locktest.Acquire(t, p.Another(t).Lock(s.rt))

	err := s.rt.Close(context.Background())

	require.Error(t, err)
	assert.Contains(t, err.Error(), s.pid.Id+": telling these actors does not come back")
	assert.Equal(t, err, s.rt.Close(context.Background()), "later calls get the same")
	assert.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
	assert.False(t, p.Exists(t))
	assert.Zero(t, p.Redis.Exists(t.Context(), lease.Name()).Val())
	s.release()
	locktest.Next[*protocol.Granted](t, s.answers)
	told := map[string]int{}
	for range 6 {
		told[fmt.Sprintf("%T", locktest.Next[any](t, s.answers))]++
	}
	assert.Equal(t, map[string]int{"*protocol.Inspected": 5, "*protocol.Lost": 1}, told)
}
