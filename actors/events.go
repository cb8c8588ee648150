package actors

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

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
	dropped int
	idle    sync.Cond
}

// eventsMax is how many events may wait; more are counted and dropped.
const eventsMax = 1024

func newEvents(logger *slog.Logger, call func(protocol.Event)) *events {
	e := &events{logger: logger, call: call}
	e.idle.L = &e.mu
	return e
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

func (e *events) deliver() {
	for {
		e.mu.Lock()
		if len(e.queue) == 0 && e.dropped == 0 {
			e.running = false
			e.idle.Broadcast()
			e.mu.Unlock()
			return
		}
		queue := e.queue
		e.queue = nil
		if e.dropped > 0 {
			queue = append(queue, protocol.EventsDropped{Count: e.dropped})
			e.dropped = 0
		}
		e.mu.Unlock()
		for _, event := range queue {
			e.hand(event)
		}
	}
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
	case protocol.ActorPanicked, protocol.CallbackPanicked:
		level = slog.LevelError
	case protocol.Reconnected:
		level = slog.LevelInfo
	}
	e.logger.Log(context.Background(), level, fmt.Sprint("holdfast: ", event), "lock", event.Lock())
}

// wait returns when everything has been delivered.
func (e *events) wait() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.running {
		e.idle.Wait()
	}
}
