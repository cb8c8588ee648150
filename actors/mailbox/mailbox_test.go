package mailbox

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// invoked records the messages that a mailbox passes to its actor, and fails the test if it ever receives two at once.
type invoked struct {
	t      *testing.T
	inside sync.Mutex
	got    []any
	failed []any
	onUser func(any)
}

func (i *invoked) InvokeSystemMessage(message any) { i.take(message) }

func (i *invoked) InvokeUserMessage(message any) {
	i.take(message)
	if i.onUser != nil {
		i.onUser(message)
	}
}

func (i *invoked) EscalateFailure(reason, _ any) { i.failed = append(i.failed, reason) }

func (i *invoked) take(message any) {
	if !i.inside.TryLock() {
		i.t.Error("two messages at once")
		return
	}
	i.got = append(i.got, message)
	i.inside.Unlock()
}

func newTestMailbox(t *testing.T, dispatcher actor.Dispatcher) (*Mailbox, *invoked) {
	m, i := New().(*Mailbox), &invoked{t: t}
	m.RegisterHandlers(i, dispatcher)
	return m, i
}

func TestMailbox_WaitsForStart(t *testing.T) {
	t.Parallel()
	m, i := newTestMailbox(t, actor.NewSynchronizedDispatcher(300))
	m.PostSystemMessage("started")
	m.PostUserMessage(1)
	assert.Empty(t, i.got)
	m.Start()
	assert.Equal(t, []any{"started", 1}, i.got)
}

func TestMailbox_SystemMessagesGoFirst(t *testing.T) {
	t.Parallel()
	m, i := newTestMailbox(t, actor.NewSynchronizedDispatcher(300))
	m.Start()
	i.onUser = func(message any) {
		if message == 0 {
			m.PostUserMessage(1)
			m.PostUserMessage(2)
			m.PostSystemMessage("stop")
		}
	}
	m.PostUserMessage(0)
	assert.Equal(t, []any{0, "stop", 1, 2}, i.got)
}

func TestMailbox_SuspendedKeepsUserMessages(t *testing.T) {
	t.Parallel()
	m, i := newTestMailbox(t, actor.NewSynchronizedDispatcher(300))
	m.Start()
	m.PostSystemMessage(&actor.SuspendMailbox{})
	m.PostUserMessage(1)
	m.PostSystemMessage("still heard")
	assert.Equal(t, []any{"still heard"}, i.got)
	assert.Equal(t, 1, m.UserMessageCount())
	m.PostSystemMessage(&actor.ResumeMailbox{})
	assert.Equal(t, []any{"still heard", 1}, i.got)
}

func TestMailbox_PanicIsEscalatedAndTheNextMessageHandled(t *testing.T) {
	t.Parallel()
	m, i := newTestMailbox(t, actor.NewSynchronizedDispatcher(300))
	m.Start()
	i.onUser = func(message any) {
		if message == 1 {
			panic("one")
		}
	}
	m.PostUserMessage(1)
	m.PostUserMessage(2)
	assert.Equal(t, []any{1, 2}, i.got)
	assert.Equal(t, []any{"one"}, i.failed)
}

// countingDispatcher counts how often a sender has handed an actor to a worker.
type countingDispatcher struct {
	*Workers
	handed int
}

func (d *countingDispatcher) Schedule(job func()) { d.handed++; job() }

func TestMailbox_SenderIsNotKept(t *testing.T) {
	t.Parallel()
	d := &countingDispatcher{}
	m, i := newTestMailbox(t, d)
	m.Start()
	i.onUser = func(message any) {
		if message == 0 {
			for n := range 10 * inlineMax {
				m.PostUserMessage(n + 1)
			}
			assert.Zero(t, d.handed)
		}
	}
	m.PostUserMessage(0)
	assert.Equal(t, 1, d.handed, "the sender handles a few messages, a worker the rest")
	assert.Len(t, i.got, 10*inlineMax+1)
}

// With many senders no message is lost, and the messages of each sender stay in order.
func TestMailbox_LosesNothing(t *testing.T) {
	t.Parallel()
	const senders, each = 8, 2000
	w := StartWorkers()
	defer w.Stop()
	m, i := newTestMailbox(t, w)
	m.Start()
	done := make(chan struct{})
	i.onUser = func(any) {
		if len(i.got) == senders*each {
			close(done)
		}
	}
	var group sync.WaitGroup
	for sender := range senders {
		group.Go(func() {
			for n := range each {
				m.PostUserMessage([2]int{sender, n})
			}
		})
	}
	group.Wait()
	<-done
	var next [senders]int
	for _, message := range i.got {
		sent := message.([2]int)
		require.Equal(t, next[sent[0]], sent[1])
		next[sent[0]]++
	}
}

func TestFifo_AgainstASlice(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var q fifo
	var model []any
	for n := range 20_000 {
		if random.IntN(100) < 50+10*(n/4000%2) {
			q.push(n)
			model = append(model, n)
		} else if len(model) > 0 {
			require.Equal(t, model[0], q.pop())
			model = model[1:]
		}
		require.Equal(t, len(model), q.count)
	}
	for q.count > 0 {
		q.pop()
	}
	assert.LessOrEqual(t, len(q.ring), fifoKeep, "a large ring is dropped")
}
