package main

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/protocol"
)

// order is a message to a clerk: work to do under the lock.
type order struct {
	pages   int
	spoiled bool // it makes the clerk fail
}

// page is a message of a clerk to itself: the next piece of the work. Between two pages the clerk receives other messages, such as Lost.
type page struct{}

// clerk is an actor that needs the lock for every order. It has one order at a time.
type clerk struct {
	// fixed at construction
	name string
	lock *holdfast.Lock
	said chan<- string

	order order
	ids   uint64            // the ID of its last request
	held  *protocol.Granted // nil if the clerk does not have the lock
}

// Receive handles the answers of the lock's actor like any other message. It never blocks.
func (k *clerk) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case order:
		k.order = m
		k.acquire(c)
	case *protocol.Granted:
		k.held = m // stored before anything that may fail, because a release needs m.Serial
		k.say("has the lock")
		c.Send(c.Self(), page{})
	case *protocol.Refused:
		k.say(fmt.Sprintf("was refused: %v", m.Err)) // the clerk may ask again, with another ID
	case page:
		k.work(c)
	case *protocol.Released:
		if m.Err != nil {
			k.say(fmt.Sprintf("gave it back, but: %v", m.Err)) // the lease is over anyway
		}
	case *protocol.Lost:
		if k.held != nil && m.Serial == k.held.Serial {
			k.held = nil
			k.say("lost it: undo the half-done order")
		}
	}
}

func (k *clerk) acquire(c actor.Context) {
	k.ids++
	c.Request(k.lock.PID(), &protocol.Acquire{ID: k.ids, Kind: protocol.KindLock, Lock: k.lock.Name(), Wait: time.Minute})
}

// work does one page. The message Lost may still be in the mailbox, so Valid is called immediately before the side effect.
func (k *clerk) work(c actor.Context) {
	switch {
	case k.held == nil || !k.held.Valid():
		return // Lost has arrived, or is in flight
	case k.order.spoiled:
		panic("coffee over the order")
	case k.order.pages == 0:
		k.release(c)
		return
	}
	k.order.pages--
	c.Send(c.Self(), page{})
}

func (k *clerk) release(c actor.Context) {
	k.say("gives it back") // said now, because another clerk may have the lock when Released arrives
	k.ids++
	c.Request(k.lock.PID(), &protocol.Release{ID: k.ids, Kind: k.held.Kind, Lock: k.held.Lock, Serial: k.held.Serial})
	k.held = nil
}

func (k *clerk) say(what string) { k.said <- k.name + " " + what }
