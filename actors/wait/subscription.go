package wait

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// Subscription is a machine's subscription to a channel on which releases are published. It lasts as long as requests wait, and a little longer
// (KeepChannel): often another waiter comes within that time. It then needs neither a new subscription nor the second attempt that follows a new one.
//
// The zero value is no subscription.
type Subscription struct {
	Channel string
	Watch   Watch
	unused  time.Duration // when the last waiter left, or clock.Never while there are waiters
}

// Watch is the state of a subscription.
type Watch uint8

// The values of Watch.
const (
	Unwatched Watch = iota
	Subscribing
	Subscribed
)

// Begin subscribes to a channel.
func (s *Subscription) Begin(b *Base, channel string) {
	s.Channel, s.Watch = channel, Subscribing
	b.Emit(Effect{Do: DoWatch, Channel: channel})
}

// Confirm notes that messages arrive from now on. It reports whether the subscription is new, and not one that was restored.
func (s *Subscription) Confirm() (isNew bool) {
	isNew = s.Watch == Subscribing
	s.Watch = Subscribed
	return isNew
}

// End unsubscribes.
func (s *Subscription) End(b *Base) {
	s.Watch = Unwatched
	b.Emit(Effect{Do: DoUnwatch, Channel: s.Channel})
}

// Unneeded notes when the last waiter left. It reports whether there is a subscription that no waiter has needed for KeepChannel, or, while the
// runtime ends, that none needs now.
func (s *Subscription) Unneeded(b *Base, now time.Duration) bool {
	if b.Queue.Len > 0 {
		s.unused = clock.Never
		return false
	}
	s.unused = min(s.unused, now)
	return s.Watch != Unwatched && (b.Stage >= Draining || now >= s.unused+KeepChannel)
}

// UnneededAt returns the instant from which Unneeded returns true, or clock.Never if there is none yet.
func (s *Subscription) UnneededAt(b *Base) time.Duration {
	if s.Watch == Unwatched || b.Queue.Len > 0 {
		return clock.Never
	}
	return s.unused + KeepChannel
}
