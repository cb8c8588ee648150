package faults_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

// handler is a slog.Handler that calls its function `do` for each record.
type handler struct{ do func() }

func (h handler) Enabled(context.Context, slog.Level) bool  { return true }
func (h handler) Handle(context.Context, slog.Record) error { h.do(); return nil }
func (h handler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h handler) WithGroup(string) slog.Handler             { return h }

// makeEvents makes a runtime report n events.
func makeEvents(rt *holdfast.Runtime, p *locktest.Place, n int) {
	for range n {
		rt.System().Root.Send(p.Lock(rt).PID(), "no message of the API")
	}
}

// harmless asserts that locks can still be acquired and renewed, and that a loss is still reported.
func harmless(t *testing.T, p *locktest.Place, rt *holdfast.Runtime) {
	t.Helper()
	kept := locktest.Acquire(t, p.Lock(rt))
	lost := locktest.AcquireBriefly(t, p.Another(t).Lock(rt))
	locktest.Closed(t, "the loss", lost.Done())
	for range 10 {
		locktest.Release(t, locktest.Acquire(t, p.Another(t).Lock(rt)))
	}
	renewed(t, p, kept.Valid)
	locktest.Release(t, kept)
}

// badLoggers makes functions that a Logger calls instead of writing a record.
var badLoggers = map[string]func(b *blocker) func(){
	"panics":             func(*blocker) func() { return func() { panic("of the logger") } },
	"ends its goroutine": func(*blocker) func() { return runtime.Goexit },
	"blocks":             func(b *blocker) func() { return b.block },
}

// A Logger may do whatever OnEvent may do, because the goroutine that calls OnEvent also calls the Logger. No actor calls it.
func TestFault_LoggerHarmsNobody(t *testing.T) {
	t.Parallel()
	for name, do := range badLoggers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, b := locktest.PlaceOf(t, "lock"), newBlocker(t)
			rt := p.Runtime(t, holdfast.Options{Lease: shortLease, Logger: slog.New(handler{do(b)})})
			t.Cleanup(b.release)
			makeEvents(rt, p, 3000)
			harmless(t, p, rt)
		})
	}
}

// t.FailNow or runtime.Goexit in OnEvent ends the goroutine that calls OnEvent. Later events are still delivered.
func TestFault_OnEventMayEndItsGoroutine(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "lock")
	var events locktest.Recorder
	rt := p.Runtime(t, holdfast.Options{Lease: shortLease, OnEvent: func(e holdfast.Event) {
		events.Record(e)
		runtime.Goexit()
	}})
	makeEvents(rt, p, 100)
	locktest.Await(t, "all of them", func() bool { return len(locktest.Recorded[holdfast.RequestDropped](&events)) == 100 })
	harmless(t, p, rt)
}

// Close does not wait for a blocked callback: users call Close when something is wrong, and OnEvent may be stuck for the same reason.
func TestFault_CloseDoesNotWaitForACallbackThatBlocks(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(b *blocker) holdfast.Options{
		"OnEvent": func(b *blocker) holdfast.Options {
			return holdfast.Options{OnEvent: func(holdfast.Event) { b.block() }, Logger: locktest.Quiet()}
		},
		"Logger": func(b *blocker) holdfast.Options { return holdfast.Options{Logger: slog.New(handler{b.block})} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, b := locktest.PlaceOf(t, "lock"), newBlocker(t)
			rt, err := holdfast.New(locktest.NewClient(t, p.Addr), options(b))
			require.NoError(t, err)
			lease := locktest.Acquire(t, p.Lock(rt))
			makeEvents(rt, p, 2)
			<-b.inside

			err = rt.Close(context.Background())

			assert.ErrorContains(t, err, "Options.OnEvent or the Logger does not come back")
			assert.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
			assert.False(t, p.Exists(t), "everything is released")
			b.release()
		})
	}
}

// OnEvent may close the runtime. Close cannot wait for the callback that has called it.
func TestFault_CloseWithinOnEvent(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "lock")
	runtimes, closed := make(chan *holdfast.Runtime, 1), make(chan error, 10)
	rt, err := holdfast.New(locktest.NewClient(t, p.Addr), holdfast.Options{Logger: locktest.Quiet(), OnEvent: func(holdfast.Event) {
		rt := <-runtimes
		closed <- rt.Close(context.Background())
	}})
	require.NoError(t, err)
	lease := locktest.Acquire(t, p.Lock(rt))
	runtimes <- rt
	makeEvents(rt, p, 1)
	select {
	case err := <-closed:
		assert.ErrorContains(t, err, "does not come back")
	case <-time.After(locktest.Patience):
		require.Fail(t, "Close waits for the callback that has called it")
	}
	assert.ErrorIs(t, lease.Err(), holdfast.ErrClosed)
	assert.False(t, p.Exists(t))
}

// Close returns only after a slow OnEvent has handled all events. Here OnEvent handles none of them before Close has begun.
func TestFault_CloseWaitsForSlowCallbacks(t *testing.T) {
	t.Parallel()
	p, closing := locktest.PlaceOf(t, "lock"), make(chan struct{})
	var events locktest.Recorder
	rt := p.Runtime(t, holdfast.Options{OnEvent: func(e holdfast.Event) {
		<-closing
		<-time.After(time.Millisecond)
		events.Record(e)
	}})
	lease := locktest.Acquire(t, p.Lock(rt))
	go func() {
		<-lease.Done() // Close ends the lease
		close(closing)
	}()
	makeEvents(rt, p, 500)
	a := locktest.NewActor(t, rt, p.Lock(rt))
	a.Ask(&protocol.Acquire{ID: 1, Kind: protocol.KindLock, Lock: p.Name, Try: true})
	locktest.Answer[*protocol.Refused](t, a) // the actor of PID has read all messages before this one
	require.NoError(t, rt.Close(t.Context()))
	assert.Len(t, locktest.Recorded[holdfast.RequestDropped](&events), 500)
}

// The actor that receives the requests of users' actors calls the NameMapper. If the NameMapper panics, only that request is refused.
func TestFault_NameMapperThatPanics(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		bad := p.Name + "-bad"
		rt := p.Runtime(t, holdfast.Options{NameMapper: func(name string) string {
			if name == bad {
				panic("of the mapper")
			}
			return name
		}})
		a := locktest.NewActor(t, rt, p.Lock(rt))
		a.Ask(&protocol.Acquire{ID: 7, Kind: protocol.Kind(p.Kind.Name), Lock: bad})
		refused := locktest.Answer[*protocol.Refused](t, a)
		assert.Equal(t, uint64(7), refused.ID)
		for _, err := range []error{refused.Err, errorOf(p.Kind.Lock(rt, bad).Acquire(t.Context()))} {
			require.ErrorIs(t, err, holdfast.ErrInvalid)
			assert.ErrorContains(t, err, "of the mapper")
			assert.ErrorContains(t, err, bad)
		}
		locktest.Release(t, locktest.Acquire(t, p.Lock(rt)))
	})
}

func errorOf(_ *holdfast.Lease, err error) error { return err }

// moody is a user-defined context. When a context derived from a moody ends, the context package calls the moody's Value.
type moody struct {
	context.Context
	mood func()
}

func (m moody) Value(key any) any { m.mood(); return m.Context.Value(key) }

// A caller's context may have a Value method that panics. The actor that ends the lease calls the method and survives. No other caller is affected.
func TestFault_ContextThatPanics(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		var events locktest.Recorder
		rt := p.Runtime(t, holdfast.Options{OnEvent: events.Record})
		bad := make(chan struct{})
		ctx := moody{t.Context(), func() {
			select {
			case <-bad:
				panic("of the context")
			default:
			}
		}}
		lease := locktest.Acquire(t, p.Lock(rt))
		inner, stop := lease.Context(ctx)
		pending := p.Lock(rt).AcquireAsync(ctx)
		p.WaitForWaiting(t, rt, 1)
		close(bad)
		held, err := p.Lock(rt).ForceRelease(t.Context())
		require.NoError(t, err)
		assert.True(t, held)
		locktest.Closed(t, "the context", inner.Done())
		next, err := pending.Lease()
		require.NoError(t, err)
		assert.True(t, next.Valid())
		locktest.Release(t, next)
		assert.Empty(t, locktest.Recorded[holdfast.ActorPanicked](&events))
		assert.Panics(t, func() { stop() })
	})
}

var errOfCause = errors.New("the cause")

// If fn panics, Do releases the lock and the panic propagates, whatever Redis answers to the release.
func TestFault_DoPanicsOnWithoutTheServer(t *testing.T) {
	t.Parallel()
	p := locktest.OwnPlaceOf(t, "lock")
	rt, proxy := p.Proxied(t, holdfast.Options{Lease: time.Second})
	for name, fault := range map[string]func(){
		"away":       func() { proxy.Refuse(true); proxy.Cut() },
		"silent":     func() { proxy.Blackhole(true) },
		"reply lost": func() { proxy.SwallowReplies(true) },
		"well":       func() {},
	} {
		start := time.Now()
		assert.PanicsWithValue(t, errOfCause, func() {
			_ = p.Lock(rt).Do(t.Context(), func(context.Context) error { fault(); panic(errOfCause) })
		}, name)
		assert.Less(t, time.Since(start), locktest.Patience, name)
		proxy.Heal()
		locktest.Await(t, "the key to go, "+name, func() bool { return !p.Exists(t) })
	}
}
