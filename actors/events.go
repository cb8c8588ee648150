package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

// events delivers events to the logger and to Options.OnEvent, off the actors: both may block or panic without harm.
// The goroutine that calls them lives while there is something to deliver.
type events struct {
	logger *slog.Logger
	call   func(protocol.Event)

	mu      sync.Mutex
	queue   []protocol.Event
	running bool
	handed  int // events so far
	dropped int
	idle    chan struct{} // closed when nothing is left to deliver; nil unless somebody waits for that
}

// eventsMax is how many events may wait; more are counted and dropped.
const eventsMax = 1024

func newEvents(logger *slog.Logger, call func(protocol.Event)) *events {
	return &events{logger: logger, call: call}
}

func (e *events) emit(event protocol.Event) {
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

// deliver tells everything. OnEvent may end the goroutine that it is called on, as t.FailNow does: another one goes on.
func (e *events) deliver() {
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

// next takes the next event; without one the delivery is over for now.
func (e *events) next() (protocol.Event, bool) {
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

// hand gives one event to both; a panic of the user's callback becomes an event for the logger alone.
func (e *events) hand(event protocol.Event) {
	e.log(event)
	if e.call == nil {
		return
	}
	defer func() {
		if value := recover(); value != nil {
			e.log(protocol.CallbackPanicked{Value: value})
		}
	}()
	e.call(event)
}

func (e *events) log(event protocol.Event) {
	defer func() { _ = recover() }() // a logger that panics has no place left to say so
	level := slog.LevelWarn
	switch event.(type) {
	case protocol.ActorPanicked, protocol.CallbackPanicked, protocol.LeaseLeaked:
		level = slog.LevelError
	case protocol.Reconnected:
		level = slog.LevelInfo
	}
	e.logger.Log(context.Background(), level, fmt.Sprint("holdfast: ", event), "lock", event.Lock())
}

// finish waits until everything has been delivered, as long as one call after the other comes back in time.
func (e *events) finish(clock Clock, grace time.Duration) error {
	for {
		handed, idle := e.progress()
		if idle == nil {
			return nil
		}
		elapsed, timer := elapse(clock, grace)
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

// progress tells how much has been delivered, and what is closed when that is all; nil: it is.
func (e *events) progress() (handed int, idle chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running && e.idle == nil {
		e.idle = make(chan struct{})
	}
	return e.handed, e.idle
}
