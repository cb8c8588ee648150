package sim

import (
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/scripts"
)

// listening says how a client that never acquires, like a monitor, subscribes to releases. A release counts such a subscriber among the
// waiters.
type listening string

const (
	nobody     listening = ""
	channels   listening = "SUBSCRIBE to each channel"
	everything listening = "PSUBSCRIBE *"
)

// newListening draws from dice of its own, so that worlds without a listener stay as they are.
func newListening(d dice) listening {
	return []listening{nobody, nobody, nobody, nobody, nobody, nobody, channels, everything}[mix(uint64(d))%8]
}

// aloneMax is the longest time for which a lock may stay free while users wait for it. It applies to worlds with a mere listener, after the
// first second. A process pauses for up to 125 ms after its turn; some round trips follow.
const aloneMax = 150 * time.Millisecond

// listen makes the mere listener subscribe; the function over, which it returns, ends the subscription.
func (w *world) listen() (over func()) {
	if w.plan.listening == nobody {
		return func() {}
	}
	w.disturbed["mere listener"]++
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
