package holdfast_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// logged keeps what a logger is told.
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
	everywhere(t, func(t *testing.T, p *place) {
		var events recorder
		var log logged
		rt := p.runtime(t, holdfast.Options{OnEvent: events.record, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		lease := acquire(t, p.lock(rt), holdfast.WithLease(100*time.Millisecond))
		closed(t, "the end", lease.Done())
		await(t, "the event", func() bool { return len(recorded[holdfast.LeaseLost](&events)) == 1 })
		event := recorded[holdfast.LeaseLost](&events)[0]
		assert.Equal(t, holdfast.LeaseLost{Name: p.name, ID: lease.ID(), Reason: "expired"}, event)
		assert.Equal(t, p.name, event.Lock())
		assert.Contains(t, log.String(), p.name, "events are logged, too")
	})
}

func TestEvents_TellOfFailedRenewals(t *testing.T) {
	t.Parallel()
	onOwnServer(t, func(t *testing.T, p *place) {
		var events recorder
		rt, proxy := p.proxied(t, holdfast.Options{Lease: 6 * time.Second, OnEvent: events.record})
		lease := acquire(t, p.lock(rt))
		proxy.Refuse(true)
		proxy.Cut()
		await(t, "a renewal to fail", func() bool { return len(recorded[holdfast.RenewFailed](&events)) > 0 })
		proxy.Refuse(false)
		failed := recorded[holdfast.RenewFailed](&events)[0]
		assert.Equal(t, p.name, failed.Lock())
		assert.Equal(t, lease.ID(), failed.ID)
		assert.Error(t, failed.Err)
		assert.Positive(t, failed.Left)
		assert.LessOrEqual(t, failed.Left, 4*time.Second)
		deadline := lease.ExpiresAt()
		await(t, "the next renewal", func() bool { return lease.ExpiresAt().After(deadline) })
		assert.True(t, lease.Valid(), "a failed renewal is no loss")
		release(t, lease)
	})
}

func TestEvents_TellOfReconnections(t *testing.T) {
	t.Parallel()
	onOwnServer(t, func(t *testing.T, p *place) {
		var events recorder
		rt, proxy := p.proxied(t, holdfast.Options{OnEvent: events.record})
		taken := acquire(t, p.lock(p.runtime(t, holdfast.Options{})))
		waiting := p.lock(rt).AcquireAsync(t.Context())
		p.waitForWaiter(t, rt)
		var cut time.Time // the first may come before the runtime knows that it is subscribed
		await(t, "the subscription to be back", func() bool {
			if time.Since(cut) > time.Second {
				proxy.Cut()
				cut = time.Now()
			}
			return len(recorded[holdfast.Reconnected](&events)) > 0
		})
		assert.Equal(t, holdfast.Reconnected{Channels: 1}, recorded[holdfast.Reconnected](&events)[0])
		waiting.Cancel()
		release(t, taken)
	})
}

// A callback that panics, or blocks, or calls the runtime harms nobody.
func TestEvents_CallbackHarmsNobody(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		var log logged
		unblock, calls := make(chan struct{}), make(chan struct{}, 10)
		var rt *holdfast.Runtime
		defer close(unblock)
		rt = p.runtime(t, holdfast.Options{Lease: 600 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil)), OnEvent: func(e holdfast.Event) {
			select {
			case calls <- struct{}{}:
			default:
			}
			if len(calls) == 1 {
				panic("of the callback")
			}
			if len(calls) == 2 {
				lease, err := p.kind.lock(rt, e.Lock()).Acquire(context.Background())
				if assert.NoError(t, err) {
					assert.NoError(t, lease.Release(context.Background()))
				}
			}
			<-unblock
		}})
		kept := acquire(t, p.lock(rt))
		for range 5 {
			lost := acquire(t, p.another(t).lock(rt), holdfast.WithLease(50*time.Millisecond))
			closed(t, "the loss", lost.Done())
			release(t, acquire(t, p.another(t).lock(rt)))
		}
		await(t, "the second call", func() bool { return len(calls) == 2 })
		stays(t, "renewals go on", 900*time.Millisecond, kept.Valid)
		assert.Len(t, calls, 2, "one event after the other")
		assert.Contains(t, log.String(), "of the callback")
		release(t, kept)
	})
}

func TestEvents_AreBoundedWhenTheCallbackIsSlow(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		const many, batch = 4000, 1024 // one batch is being told, and one waits
		var events recorder
		unblock := make(chan struct{})
		free := sync.OnceFunc(func() { close(unblock) })
		defer free()
		rt := p.runtime(t, holdfast.Options{OnEvent: func(e holdfast.Event) { <-unblock; events.record(e) }})
		for range many {
			rt.System().Root.Send(p.lock(rt).PID(), "no message of the protocol")
		}
		release(t, acquire(t, p.lock(rt)))
		free()
		await(t, "all to be told or counted", func() bool {
			told := len(recorded[holdfast.RequestDropped](&events))
			for _, e := range recorded[holdfast.EventsDropped](&events) {
				told += e.Count
			}
			return told == many
		})
		assert.NotEmpty(t, recorded[holdfast.EventsDropped](&events))
		require.LessOrEqual(t, len(recorded[holdfast.RequestDropped](&events)), 2*batch)
	})
}
