// Package mailbox implements protoactor's mailbox and dispatcher for the actors of a runtime. An idle actor runs on the goroutine of its sender.
// The package knows nothing of locks.
package mailbox

import (
	"runtime"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// Mailbox runs an idle actor on the goroutine of its sender, for at most inlineMax messages. A resident worker handles the remaining messages. So a
// call passes from the caller through the actor of the lock to the gateway without a switch of goroutines. The limit keeps each Send short:
// protoactor's synchronized dispatcher has no such limit, and with it a Send took a second and more under load.
//
// Handlers must not block. A handler that holds a mutex must not send if another handler locks that mutex, because the receiver may run within the
// Send.
type Mailbox struct {
	// set before the first message
	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher

	mu        sync.Mutex
	system    fifo
	user      fifo
	started   bool
	running   bool
	suspended bool // true after a panic, until the supervisor decides
}

// inlineMax is the number of messages that a sender handles before a worker takes over.
const inlineMax = 4

// New makes a mailbox. protoactor calls it for each actor of a runtime, except fronts and the actors of names: their mailboxes are fields of other
// structs of package actors.
func New() actor.Mailbox { return &Mailbox{} }

// RegisterHandlers is called once, before the first message.
func (m *Mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start is called once, after RegisterHandlers. It handles the messages that were posted before.
func (m *Mailbox) Start() {
	m.mu.Lock()
	m.started = true
	m.post()
}

// UserMessageCount returns the number of user messages that are waiting.
func (m *Mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.user.count
}

// PostUserMessage gives the actor a message. An idle actor runs at once, on this goroutine, and the message does not pass through the queue.
func (m *Mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	if m.running || !m.started || m.suspended {
		m.user.push(message)
		m.mu.Unlock()
		return
	}
	m.running = true // an actor that is not running has an empty queue
	m.mu.Unlock()
	m.handle(message, false)
	m.run(inlineMax - 1)
}

// PostSystemMessage gives the actor a message that overtakes all user messages.
func (m *Mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.system.push(message)
	m.post()
}

// post runs the actor unless it is running. It is called with mu locked, and unlocks it.
func (m *Mailbox) post() {
	if m.running || !m.started {
		m.mu.Unlock()
		return
	}
	m.running = true
	m.mu.Unlock()
	m.run(inlineMax)
}

// run handles up to limit messages on this goroutine. If some are left, the actor continues on a worker.
func (m *Mailbox) run(limit int) {
	for range limit {
		message, system, ok := m.take()
		if !ok {
			return
		}
		m.handle(message, system)
	}
	m.dispatcher.Schedule(m.drain)
}

// drain runs the actor on a worker until no message is left.
func (m *Mailbox) drain() {
	for n := 1; ; n++ {
		message, system, ok := m.take()
		if !ok {
			return
		}
		m.handle(message, system)
		if n%m.dispatcher.Throughput() == 0 {
			runtime.Gosched()
		}
	}
}

// take removes the next message. If there is none that may be handled now, it sets m.running to false before it unlocks mu. So a message that
// arrives right afterwards finds an idle actor and starts it, and no message is left behind.
func (m *Mailbox) take() (message any, system, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.system.count > 0 {
		return m.system.pop(), true, true
	}
	if m.user.count > 0 && !m.suspended {
		return m.user.pop(), false, true
	}
	m.running = false
	return nil, false, false
}

// handle gives one message to the actor. The supervisor decides about a panic, as with protoactor's own mailboxes.
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

// fifo is a queue in a ring that doubles when it is full. A ring that has grown for a burst is dropped when it is empty.
type fifo struct {
	ring        []any
	head, count int
}

// fifoKeep is the size up to which an empty ring is kept.
const fifoKeep = 64

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
