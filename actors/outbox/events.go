package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/protocol"
)

// Events delivers events to the logger and to Options.OnEvent, in the order in which they were emitted. A separate goroutine delivers them, so user
// code can neither block an actor nor make it panic. The goroutine ends when no event is left.
type Events struct {
	logger *slog.Logger
	call   func(protocol.Event)

	mu      sync.Mutex
	queue   []protocol.Event
	running bool
	handed  int // number of calls of next, so it changes with each delivery
	dropped int
	idle    chan struct{} // closed when everything is delivered; nil unless Finish waits
}

// eventsMax is the maximum number of events that may wait. Further ones are counted and dropped.
const eventsMax = 1024

// NewEvents makes a queue of events. call may be nil.
func NewEvents(logger *slog.Logger, call func(protocol.Event)) *Events {
	return &Events{logger: logger, call: call}
}

// Emit queues an event and returns at once. If eventsMax events are waiting, it counts the event as dropped.
func (e *Events) Emit(event protocol.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) >= eventsMax {
		e.dropped++
		return
	}
	e.queue = append(e.queue, event)
	if !e.running {
		e.running = true
		go e.deliver()
	}
}

// Warn queues a record that only the logger gets.
func (e *Events) Warn(message string, attrs ...slog.Attr) { e.Emit(warning{message, attrs}) }

// warning is a record for the logger only. It is no event of the API, so Options.OnEvent does not get it.
type warning struct {
	message string
	attrs   []slog.Attr
}

func (warning) Lock() string           { return "" }
func (w warning) LogValue() slog.Value { return slog.GroupValue(w.attrs...) }

// RecoverIn turns a panic into an event, so that the actor, gateway or link can continue. The gateways and the links of package pubsub defer
// RecoverIn. All actors defer it in their Receive, except the guardian and the actors of names. An actor of a name recovers by itself, because it
// also has to answer the request that it was handling.
func (e *Events) RecoverIn(actor string) {
	if value := recover(); value != nil {
		e.Emit(protocol.ActorPanicked{Value: fmt.Sprintf("%s: %v", actor, value), Stack: string(debug.Stack())})
	}
}

// deliver delivers events until none is left. If OnEvent ends the goroutine, as t.FailNow does, deliver continues on another one.
func (e *Events) deliver() {
	done := false
	defer func() {
		if !done {
			go e.deliver()
		}
	}()
	for {
		event, ok := e.next()
		if !ok {
			done = true
			return
		}
		e.hand(event)
	}
}

// next removes the next event from the queue and returns it. It returns false if there is none, and deliver then ends.
func (e *Events) next() (protocol.Event, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handed++
	switch {
	case len(e.queue) > 0:
		event := e.queue[0]
		e.queue[0] = nil
		e.queue = e.queue[1:]
		return event, true
	case e.dropped > 0:
		event := protocol.EventsDropped{Count: e.dropped}
		e.dropped = 0
		return event, true
	}
	e.queue, e.running = nil, false
	if e.idle != nil {
		close(e.idle)
		e.idle = nil
	}
	return nil, false
}

// hand gives one event to the logger and, unless it is a warning, to the callback. A panic of the callback becomes an event for the logger only.
func (e *Events) hand(event protocol.Event) {
	e.log(event)
	if _, logged := event.(warning); logged || e.call == nil {
		return
	}
	defer func() {
		if value := recover(); value != nil {
			e.log(protocol.CallbackPanicked{Value: value})
		}
	}()
	e.call(event)
}

func (e *Events) log(event protocol.Event) {
	defer func() { _ = recover() }() // a panic of the logger cannot be reported anywhere
	level, message := record(event)
	e.logger.LogAttrs(context.Background(), level, message, event.(slog.LogValuer).LogValue().Group()...)
}

// record returns the level and the message of an event's log record. The message is constant, so that records can be counted by it.
func record(event protocol.Event) (slog.Level, string) {
	switch event := event.(type) {
	case warning:
		return slog.LevelWarn, event.message
	case protocol.LeaseLost:
		return slog.LevelWarn, "lease lost"
	case protocol.Waiting:
		return slog.LevelWarn, "waiting for long"
	case protocol.LeaseLeaked:
		return slog.LevelError, "lease leaked"
	case protocol.RenewFailed:
		return slog.LevelWarn, "renewal failed"
	case protocol.Unconfirmed:
		return slog.LevelWarn, "outcome unconfirmed"
	case protocol.Reconnected:
		return slog.LevelInfo, "reconnected"
	case protocol.SubscribeRefused:
		return slog.LevelWarn, "subscription refused"
	case protocol.QueueLost:
		return slog.LevelWarn, "place in queue lost"
	case protocol.ActorPanicked:
		return slog.LevelError, "actor panicked"
	case protocol.RequestDropped:
		return slog.LevelWarn, "request dropped"
	case protocol.RequesterBlocked:
		return slog.LevelWarn, "requester blocked"
	case protocol.CallbackPanicked:
		return slog.LevelError, "callback panicked"
	case protocol.EventsDropped:
		return slog.LevelWarn, "events dropped"
	}
	panic(fmt.Sprintf("no log record for %T", event))
}

// Finish waits until every event is delivered. If no delivery ends within `grace`, OnEvent or the logger must be blocking, so Finish returns an
// error.
func (e *Events) Finish(of clock.Clock, grace time.Duration) error {
	for {
		handed, idle := e.progress()
		if idle == nil {
			return nil
		}
		elapsed, timer := clock.After(of, grace)
		select {
		case <-idle:
			timer.Stop()
			return nil
		case <-elapsed:
		}
		if now, _ := e.progress(); now == handed {
			return errEventBlocks
		}
	}
}

var errEventBlocks = errors.New("Options.OnEvent or the Logger does not come back from a call")

// progress returns a number that changes with each delivery, and a channel that is closed when everything is delivered. The channel is nil if
// everything is delivered already.
func (e *Events) progress() (handed int, idle chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running && e.idle == nil {
		e.idle = make(chan struct{})
	}
	return e.handed, e.idle
}
