package outbox

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/protocol"
)

// Outbox delivers messages to the user's actors. Each actor gets its messages in the order in which they were posted.
//
// A delivery may take long, for one of three reasons. An actor on protoactor's synchronized dispatcher handles the message within the send. A send to
// a full bounded mailbox spins until there is room. An actor.Process that the user has registered may do anything. A lock actor must not wait for a
// delivery, because the lock actor serves other requesters, and its leases have deadlines. So each receiver with messages has a queue, and a
// goroutine that delivers until the queue is empty.
type Outbox struct {
	// fixed at construction
	clock  clock.Clock
	root   *actor.RootContext
	events *Events

	mu     sync.Mutex
	queues map[string]*queue // by the ID of the receiver; an empty queue is removed
	timer  clock.Timer       // set while there are queues
	over   bool              // Finish was called: blocked receivers are no longer reported
	empty  chan struct{}     // closed when the last queue is removed; nil unless Finish waits
}

// queue holds the messages to one receiver. The mutex of the outbox guards it.
type queue struct {
	to        *actor.PID
	messages  []Message
	delivered int  // number of messages whose delivery has begun
	seen      int  // the value of `delivered` when reportBlocked last ran; -1 before its first run
	reported  bool // the receiver was reported as blocked
}

// Message is a message to one of the user's actors, about a lock.
type Message struct {
	Lock    string
	Content any
	System  bool // Content is for protoactor (Watch, Unwatch), not for the actor's Receive
}

// blockedAfter is the interval at which reportBlocked runs. It reports a receiver at its second run during the same delivery, so when that delivery
// has taken between one and two intervals.
const blockedAfter = time.Second

// New makes an outbox without messages.
func New(by clock.Clock, root *actor.RootContext, events *Events) *Outbox {
	return &Outbox{clock: by, root: root, events: events, queues: map[string]*queue{}}
}

// Post queues a message and returns at once.
func (o *Outbox) Post(to *actor.PID, m Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q := o.queues[to.Id]; q != nil {
		q.messages = append(q.messages, m)
		return
	}
	q := &queue{to: to, messages: []Message{m}, seen: -1}
	o.queues[to.Id] = q
	if o.timer == nil && !o.over {
		o.timer = o.clock.AfterFunc(blockedAfter, o.reportBlocked)
	}
	go o.run(q)
}

// run delivers until the queue is empty. If an actor ends the goroutine (runtime.Goexit), run continues on another one.
func (o *Outbox) run(q *queue) {
	done := false
	defer func() {
		if !done {
			go o.run(q)
		}
	}()
	for {
		m, ok := o.next(q)
		if !ok {
			done = true
			return
		}
		o.deliver(q.to, m)
	}
}

// next removes the next message from a queue, or removes the queue if it is empty.
func (o *Outbox) next(q *queue) (Message, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(q.messages) == 0 {
		delete(o.queues, q.to.Id)
		if len(o.queues) == 0 && o.empty != nil {
			close(o.empty)
			o.empty = nil
		}
		return Message{}, false
	}
	m := q.messages[0]
	q.messages[0] = Message{}
	q.messages = q.messages[1:]
	q.delivered++
	return m, true
}

// deliver delivers a message, which runs code of the user.
func (o *Outbox) deliver(to *actor.PID, m Message) {
	defer func() {
		if value := recover(); value != nil {
			o.events.Emit(protocol.ActorPanicked{
				Name: m.Lock, Value: fmt.Sprintf("telling %s: %v", to.Id, value), Stack: string(debug.Stack()),
			})
		}
	}()
	if !m.System {
		o.root.Send(to, m.Content)
		return
	}
	process, _ := o.root.ActorSystem().ProcessRegistry.Get(to) // for a terminated actor this is a process that answers with Terminated
	process.SendSystemMessage(to, m.Content)
}

// reportBlocked runs every blockedAfter. It reports each receiver whose present delivery was already in progress when reportBlocked ran last. Each
// receiver is reported only once while it has a queue.
func (o *Outbox) reportBlocked() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.timer = nil
	for _, q := range o.queues {
		if q.delivered == q.seen && !q.reported {
			q.reported = true
			o.events.Emit(protocol.RequesterBlocked{Requester: q.to.Id, Waiting: len(q.messages)})
		}
		q.seen = q.delivered
	}
	if len(o.queues) > 0 && !o.over {
		o.timer = o.clock.AfterFunc(blockedAfter, o.reportBlocked)
	}
}

// Finish waits until everything is delivered, but no longer than grace. Its error names the receivers whose messages are not all delivered.
func (o *Outbox) Finish(grace time.Duration) error {
	empty := o.stop()
	if empty == nil {
		return nil
	}
	elapsed, timer := clock.After(o.clock, grace)
	defer timer.Stop()
	select {
	case <-empty:
		return nil
	case <-elapsed:
		return fmt.Errorf("%s: telling these actors does not come back", strings.Join(o.receivers(), ", "))
	}
}

// stop ends the reports of blocked receivers. It returns a channel that is closed when all messages are delivered, or nil if they already are.
func (o *Outbox) stop() (empty chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	if len(o.queues) > 0 {
		o.empty = make(chan struct{})
	}
	return o.empty
}

func (o *Outbox) receivers() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var ids []string
	for id := range o.queues {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
