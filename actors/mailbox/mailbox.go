// Package mailbox is how protoactor runs the actors of a runtime: on the goroutine of whoever sends to them. It knows nothing of locks.
package mailbox

import (
	"runtime"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// Mailbox runs an actor on the goroutine of whoever sends to it while it is idle, for a few messages; what comes in meanwhile
// and is left then goes on a resident worker. So a call on its way from the caller through router and lock actor to the gateway
// costs no switch of goroutines, and nobody is kept inside a Send for long, which is what makes protoactor's synchronized
// dispatcher unusable here (a second and more under load).
//
// Handlers must not block, and must not send while they hold a lock that another handler takes.
type Mailbox struct {
	// set before the first message
	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher

	mu        sync.Mutex
	system    fifo
	user      fifo
	started   bool
	running   bool
	suspended bool // by a failure, until the supervisor decides
}

// inlineMax is how many messages a sender handles before the rest goes to a worker.
const inlineMax = 4

func New() actor.Mailbox { return &Mailbox{} }

// RegisterHandlers is called once, before the first message.
func (m *Mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start is called once after that; what was posted before waits for it.
func (m *Mailbox) Start() {
	m.mu.Lock()
	m.started = true
	m.post()
}

// UserMessageCount is how many user messages wait.
func (m *Mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.user.len()
}

// PostUserMessage takes a message for the actor.
func (m *Mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	if m.running || !m.started || m.suspended {
		m.user.push(message)
		m.mu.Unlock()
		return
	}
	m.running = true // an actor that does not run has nothing waiting
	m.mu.Unlock()
	m.handle(message, false)
	m.runOn(inlineMax - 1)
}

// PostSystemMessage takes a message that goes before all user messages.
func (m *Mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.system.push(message)
	m.post()
}

// post runs the actor unless it runs already. It is called with mu held.
func (m *Mailbox) post() {
	if m.running || !m.started {
		m.mu.Unlock()
		return
	}
	m.running = true
	m.mu.Unlock()
	m.runOn(inlineMax)
}

// runOn handles up to limit messages here, and has the rest handled by a worker.
func (m *Mailbox) runOn(limit int) {
	if !m.run(limit) {
		m.dispatcher.Schedule(m.drain)
	}
}

// drain runs the actor on a worker until nothing is left.
func (m *Mailbox) drain() {
	for !m.run(m.dispatcher.Throughput()) {
		runtime.Gosched()
	}
}

// run handles up to limit messages; true when none is left, and then the actor does not run any more.
func (m *Mailbox) run(limit int) (idle bool) {
	for range limit {
		message, system, ok := m.take()
		if !ok {
			return true
		}
		m.handle(message, system)
	}
	return false
}

func (m *Mailbox) take() (message any, system, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.system.len() > 0 {
		return m.system.pop(), true, true
	}
	if m.user.len() > 0 && !m.suspended {
		return m.user.pop(), false, true
	}
	m.running = false
	return nil, false, false
}

// handle gives one message to the actor. A panic goes to the supervisor, as in protoactor's own mailboxes.
func (m *Mailbox) handle(message any, system bool) {
	defer func() {
		if reason := recover(); reason != nil {
			m.invoker.EscalateFailure(reason, message)
		}
	}()
	if !system {
		m.invoker.InvokeUserMessage(message)
		return
	}
	switch message.(type) {
	case *actor.SuspendMailbox:
		m.suspend(true)
	case *actor.ResumeMailbox:
		m.suspend(false)
	default:
		m.invoker.InvokeSystemMessage(message)
	}
}

func (m *Mailbox) suspend(suspended bool) {
	m.mu.Lock()
	m.suspended = suspended
	m.mu.Unlock()
}

// fifo is a queue in a ring that grows by doubling. A ring that was needed once for a burst is let go when it is empty.
type fifo struct {
	ring        []any
	head, count int
}

// fifoKeep is how large a ring may stay.
const fifoKeep = 64

func (q *fifo) len() int { return q.count }

func (q *fifo) push(message any) {
	if q.count == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.count)&(len(q.ring)-1)] = message
	q.count++
}

func (q *fifo) grow() {
	ring := make([]any, max(2, 2*len(q.ring)))
	n := copy(ring, q.ring[q.head:])
	copy(ring[n:], q.ring[:q.head])
	q.ring, q.head = ring, 0
}

func (q *fifo) pop() any {
	message := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
	if q.count == 0 && len(q.ring) > fifoKeep {
		q.ring, q.head = nil, 0
	}
	return message
}
