package promises_test

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// logged keeps what a logger writes.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestEvents_TellOfLostLeases(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		var events locktest.Recorder
		var log logged
		rt := p.Runtime(t, holdfast.Options{OnEvent: events.Record, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		lease := locktest.AcquireBriefly(t, p.Lock(rt))
		locktest.Closed(t, "the end", lease.Done())
		locktest.Await(t, "the event", func() bool { return len(locktest.Recorded[holdfast.LeaseLost](&events)) == 1 })
		event := locktest.Recorded[holdfast.LeaseLost](&events)[0]
		assert.Equal(t, holdfast.LeaseLost{Kind: event.Kind, Name: p.Name, ID: lease.ID(), Reason: "expired", Held: event.Held}, event)
		assert.Greater(t, event.Held, 25*time.Millisecond)
		assert.NotEmpty(t, event.Kind)
		assert.Equal(t, p.Name, event.Lock())
		assert.Regexp(t, `msg="lease lost" kind=.* name=.*`+regexp.QuoteMeta(p.Name)+`.* reason=expired held=`, log.String(), "events are logged, too")
	})
}

func TestEvents_TellOfFailedRenewals(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		var events locktest.Recorder
		rt, proxy := p.Proxied(t, holdfast.Options{Lease: 6 * time.Second, OnEvent: events.Record})
		lease := locktest.Acquire(t, p.Lock(rt))
		proxy.Refuse(true)
		proxy.Cut()
		locktest.Await(t, "a renewal to fail", func() bool { return len(locktest.Recorded[holdfast.RenewFailed](&events)) > 0 })
		proxy.Refuse(false)
		failed := locktest.Recorded[holdfast.RenewFailed](&events)[0]
		assert.Equal(t, p.Name, failed.Lock())
		assert.Equal(t, lease.ID(), failed.ID)
		assert.Error(t, failed.Err)
		assert.Positive(t, failed.Left)
		assert.LessOrEqual(t, failed.Left, 4*time.Second)
		locktest.Renewed(t, lease)
		assert.True(t, lease.Valid(), "a failed renewal is not a loss")
		locktest.Release(t, lease)
	})
}

func TestEvents_TellOfReconnections(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		if p.Kind.Deaf {
			return // its waiters do not subscribe
		}
		var events locktest.Recorder
		rt, proxy := p.Proxied(t, holdfast.Options{OnEvent: events.Record})
		taken := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
		waiting := p.Lock(rt).AcquireAsync(t.Context())
		p.WaitForWaiter(t, rt)
		var cut time.Time // the time of the last cut; one cut may not suffice, because the runtime may not know yet that it is subscribed
		locktest.Await(t, "the subscription to be back", func() bool {
			if time.Since(cut) > time.Second {
				proxy.Cut()
				cut = time.Now()
			}
			return len(locktest.Recorded[holdfast.Reconnected](&events)) > 0
		})
		assert.Equal(t, holdfast.Reconnected{Channels: 1}, locktest.Recorded[holdfast.Reconnected](&events)[0])
		waiting.Cancel()
		locktest.Release(t, taken)
	})
}

// A callback that panics, blocks or calls the runtime does no harm.
func TestEvents_CallbackHarmsNobody(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		var log logged
		unblock, calls := make(chan struct{}), make(chan struct{}, 10)
		var rt *holdfast.Runtime
		defer close(unblock)
		rt = p.Runtime(t, holdfast.Options{Lease: locktest.Unhurried(3 * time.Second), Logger: slog.New(slog.NewTextHandler(&log, nil)), OnEvent: func(e holdfast.Event) {
			select {
			case calls <- struct{}{}:
			default:
			}
			if len(calls) == 1 {
				panic("of the callback")
			}
			if len(calls) == 2 {
				lease, err := p.Kind.Lock(rt, e.Lock()).Acquire(context.Background())
				if assert.NoError(t, err) {
					assert.NoError(t, lease.Release(context.Background()))
				}
			}
			<-unblock
		}})
		kept := locktest.Acquire(t, p.Lock(rt))
		for range 5 {
			lost := locktest.AcquireBriefly(t, p.Another(t).Lock(rt))
			locktest.Closed(t, "the loss", lost.Done())
			locktest.Release(t, locktest.Acquire(t, p.Another(t).Lock(rt)))
		}
		locktest.Await(t, "the second call", func() bool { return len(calls) == 2 })
		locktest.Renewed(t, kept)
		assert.True(t, kept.Valid())
		assert.Len(t, calls, 2, "one event after the other")
		assert.Contains(t, log.String(), "of the callback")
		locktest.Release(t, kept)
	})
}

func TestEvents_AreBoundedWhenTheCallbackIsSlow(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		const many, batch = 4000, 1024 // one batch is being delivered, and one waits
		var events locktest.Recorder
		unblock := make(chan struct{})
		free := sync.OnceFunc(func() { close(unblock) })
		defer free()
		rt := p.Runtime(t, holdfast.Options{OnEvent: func(e holdfast.Event) { <-unblock; events.Record(e) }})
		for range many {
			rt.System().Root.Send(p.Lock(rt).PID(), "no message of the protocol")
		}
		locktest.Release(t, locktest.Acquire(t, p.Lock(rt)))
		free()
		locktest.Await(t, "all events to be delivered or counted", func() bool {
			told := len(locktest.Recorded[holdfast.RequestDropped](&events))
			for _, e := range locktest.Recorded[holdfast.EventsDropped](&events) {
				told += e.Count
			}
			return told == many
		})
		assert.NotEmpty(t, locktest.Recorded[holdfast.EventsDropped](&events))
		require.LessOrEqual(t, len(locktest.Recorded[holdfast.RequestDropped](&events)), 2*batch)
	})
}
