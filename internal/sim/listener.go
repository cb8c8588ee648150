package sim

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/scripts"
)

// listening says how a mere listener subscribes to releases. A mere listener is a client that never acquires, such as a monitor. A release
// counts the mere listener among the waiters.
type listening string

const (
	nobody     listening = ""
	channels   listening = "SUBSCRIBE to each channel"
	everything listening = "PSUBSCRIBE *"
	crowd      listening = "a crowd that has left its tickets"
)

// crowdSize is the number of subscribers from which on waiting processes get tickets (scripts/lib/crowd.lua).
const crowdSize = 64

// crowdKept is the time for which Redis keeps the tickets of a crowd (scripts/lib/crowd.lua).
const crowdKept = 10 * time.Minute

// newListening draws from its own dice, so that the other draws of a world do not depend on it.
func newListening(d dice) listening {
	return []listening{crowd, nobody, nobody, nobody, nobody, nobody, channels, everything}[mix(uint64(d))%8]
}

// crowdMax replaces aloneMax in worlds with a crowd. The processes of the crowd do not exist; they only have tickets. A real process gets a ticket
// behind them, and waits until its row is called (scripts/lib/crowd.lua). Nobody calls that row, so after up to 6.25 s the process tries without a
// call. A process that has just had a turn waits longer: it first leaves the free lock to the crowd, where nobody takes it.
const crowdMax = 8 * time.Second

// aloneMax is the longest time for which a lock may stay free although users wait for it, in a world with a mere listener (see listening). It does
// not apply to the first second of the world. The time covers the pause of a process after its turn, up to 125 ms, and the round trips that follow.
const aloneMax = 150 * time.Millisecond

// listen makes the mere listener subscribe. The function `over`, which it returns, ends the subscription.
func (w *world) listen() (over func()) {
	if w.plan.listening == nobody {
		return func() {}
	}
	w.disturbed["mere listener"]++
	if w.plan.listening == crowd {
		return w.crowd()
	}
	s := w.server.NewSubscriber()
	go drain(s)
	if w.plan.listening == everything {
		s.Psubscribe("*")
		return func() { s.Punsubscribe("*"); s.Close() }
	}
	for _, at := range w.places {
		for _, channel := range []func(string) string{scripts.LockChannel, scripts.ReadWriteChannel, scripts.SemaphoreChannel, scripts.LatchChannel} {
			s.Subscribe(channel(at.name))
		}
	}
	return func() {
		for _, channel := range s.Channels() {
			s.Unsubscribe(channel)
		}
		s.Close()
	}
}

// crowd subscribes to the locks for which a crowd can wait, and adds tickets of processes that do not exist. The function `over` unsubscribes.
func (w *world) crowd() (over func()) {
	var all []*miniredis.Subscriber
	for _, at := range w.places {
		if at.kind != plainLock && at.kind != fencedLock {
			continue
		}
		channel := scripts.LockChannel(at.name)
		for n := range crowdSize {
			s := w.server.NewSubscriber()
			go drain(s)
			s.Subscribe(channel)
			all = append(all, s)
			_, _ = w.server.ZAdd(scripts.CrowdKey(channel), float64(32+n), fmt.Sprintf("%08d-dead-4000-8000-000000000000", n))
		}
		w.server.SetTTL(scripts.CrowdKey(channel), crowdKept)
	}
	return func() {
		for _, s := range all {
			for _, channel := range s.Channels() {
				s.Unsubscribe(channel)
			}
			s.Close()
		}
	}
}

func drain(s *miniredis.Subscriber) {
	messages, others := s.Messages(), s.Pmessages()
	for messages != nil || others != nil {
		select {
		case _, ok := <-messages:
			if !ok {
				messages = nil
			}
		case _, ok := <-others:
			if !ok {
				others = nil
			}
		}
	}
}
