package faults_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

// watched is a runtime whose events are recorded, and two actors: one holds the lock, and the stranger sends any message on command.
type watched struct {
	rt       *holdfast.Runtime
	events   locktest.Recorder
	holder   *locktest.Actor
	granted  *protocol.Granted
	stranger *locktest.Actor
}

func newWatched(t *testing.T, p *locktest.Place) *watched {
	w := &watched{}
	w.rt = p.Runtime(t, holdfast.Options{Lease: longLease, OnEvent: w.events.Record})
	w.holder, w.stranger = locktest.NewActor(t, w.rt, p.Lock(w.rt)), locktest.NewActor(t, w.rt, p.Lock(w.rt))
	w.granted = p.Hold(t, w.holder, 1)
	return w
}

// reported waits until n requests have been reported as dropped.
func (w *watched) reported(t *testing.T, n int) []holdfast.RequestDropped {
	t.Helper()
	locktest.Await(t, "the report", func() bool { return len(locktest.Recorded[holdfast.RequestDropped](&w.events)) >= n })
	return locktest.Recorded[holdfast.RequestDropped](&w.events)
}

// unharmed asserts that the holder still has the lock, alone, and that its release frees the lock.
func (w *watched) unharmed(t *testing.T, p *locktest.Place) {
	t.Helper()
	assert.Empty(t, locktest.Recorded[holdfast.ActorPanicked](&w.events))
	assert.True(t, w.granted.Valid())
	assert.Equal(t, map[string]string{w.granted.LeaseID: "1"}, p.Fields(t))
	w.holder.Ask(p.ReleaseMessage(9, w.granted.Serial))
	require.NoError(t, locktest.Answer[*protocol.Released](t, w.holder).Err)
	assert.False(t, p.Exists(t))
	assert.Empty(t, w.stranger.Answers)
}

type foreign struct{ Name string }

func TestFault_UnknownMessagesAreReported(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		w := newWatched(t, p)
		strange := []any{
			nil, "text", 42, foreign{"orders"}, &foreign{"orders"}, errors.New("an error"), func() {}, make(chan int), []any{1},
			(*protocol.Acquire)(nil), (*protocol.Cancel)(nil), (*protocol.Release)(nil), (*protocol.Renew)(nil), (*protocol.Inspect)(nil),
			protocol.Granted{}, &protocol.Granted{}, protocol.Lost{}, &protocol.Refused{}, protocol.LeaseLost{},
			&actor.Stopped{}, &actor.Stopping{}, &actor.Restarting{}, &actor.Started{}, &actor.PoisonPill{}, &actor.Stop{},
			&actor.Terminated{}, &actor.Terminated{Who: w.holder.PID}, &actor.Watch{Watcher: w.holder.PID}, &actor.Failure{},
			&actor.SuspendMailbox{}, &actor.ResumeMailbox{}, &actor.Touch{}, &actor.ReceiveTimeout{}, &actor.DeadLetterResponse{},
		}
		for _, message := range strange {
			w.stranger.Ask(message)
			w.rt.System().Root.Send(p.Lock(w.rt).PID(), message)
		}
		reports := w.reported(t, 2*len(strange))
		for _, message := range strange {
			assert.Contains(t, fmt.Sprint(reports), fmt.Sprintf("unknown message %T", message))
		}
		w.unharmed(t, p)
	})
}

// Any actor that has the PID of a lock may try to stop the lock's actor. The runtime ignores and reports that, because a stop would end all locks
// that share the actor.
func TestFault_LocksCannotBeStopped(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		w := newWatched(t, p)
		root, pid := w.rt.System().Root, p.Lock(w.rt).PID()
		root.Stop(pid)
		root.Poison(pid)
		w.reported(t, 2)
		w.stranger.Ask(p.AcquireMessage(1))
		p.WaitForWaiting(t, w.rt, 1)
		w.stranger.Ask(cancel(p, 1))
		require.ErrorIs(t, locktest.Answer[*protocol.Refused](t, w.stranger).Err, holdfast.ErrNotAcquired)
		w.unharmed(t, p)
	})
}

func cancel(p *locktest.Place, id uint64) *protocol.Cancel {
	return &protocol.Cancel{ID: id, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name}
}

// A request without a requester is dropped: nothing would ever end its lease.
func TestFault_RequestsWithoutAListenerAreReported(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		w := newWatched(t, p)
		root, pid, q := w.rt.System().Root, p.Lock(w.rt).PID(), p.Another(t)
		requests := []any{
			q.AcquireMessage(1), *q.AcquireMessage(1), q.ReleaseMessage(1, 1), cancel(q, 1),
			&protocol.Renew{Kind: protocol.Kind(p.Kind.Name), Lock: p.Name, Serial: w.granted.Serial, Lease: time.Second},
			&protocol.Inspect{Kind: protocol.Kind(p.Kind.Name), Lock: p.Name},
		}
		elsewhere := []*actor.PID{
			nil, actor.NewPID("10.0.0.1:8090", "clerk"), actor.NewPID("", "clerk"), actor.NewPID("10.0.0.1:8090", w.holder.PID.Id),
		}
		for _, request := range requests {
			root.Send(pid, request)
			for _, sender := range elsewhere {
				root.RequestWithCustomSender(pid, request, sender)
			}
		}
		for _, report := range w.reported(t, len(requests)*(1+len(elsewhere))) {
			assert.Regexp(t, "sender|by .*clerk|by .*"+w.holder.PID.Id[1:], report.Reason)
			assert.NotEmpty(t, report.Name)
		}
		assert.False(t, q.Exists(t))
		w.unharmed(t, p)
	})
}

// A sender that does not exist in this actor system is treated as one that has ended.
func TestFault_RequestsOfNobodyLeaveNothing(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		w := newWatched(t, p)
		q := p.Another(t)
		nobody := w.rt.System().NewLocalPID("nobody")
		for id := range uint64(20) {
			w.rt.System().Root.RequestWithCustomSender(q.Lock(w.rt).PID(), q.AcquireMessage(id), nobody)
		}
		next := locktest.NewActor(t, w.rt, q.Lock(w.rt))
		granted := q.Hold(t, next, 1)
		next.Ask(q.ReleaseMessage(2, granted.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, next).Err)
		assert.False(t, q.Exists(t))
		w.unharmed(t, p)
	})
}

// A protoactor future cannot wait for a lock, but may send every other request.
func TestFault_FuturesAreRefused(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		w := newWatched(t, p)
		ask := func(message any) any {
			t.Helper()
			answer, err := w.rt.System().Root.RequestFuture(p.Lock(w.rt).PID(), message, locktest.Patience).Result()
			require.NoError(t, err)
			return answer
		}
		q := p.Another(t)
		refused := ask(q.AcquireMessage(1)).(*protocol.Refused)
		require.ErrorIs(t, refused.Err, holdfast.ErrInvalid)
		assert.Contains(t, refused.Err.Error(), "future")
		assert.False(t, q.Exists(t))
		assert.True(t, ask(protocol.Inspect{Kind: protocol.Kind(p.Kind.Name), Lock: p.Name}).(*protocol.Inspected).State.Held)
		assert.ErrorIs(t, ask(p.ReleaseMessage(1, 1)).(*protocol.Released).Err, holdfast.ErrNotHeld)
		assert.NoError(t, ask(p.ReleaseMessage(1, w.granted.Serial)).(*protocol.Released).Err, "a serial is all that it takes")
		assert.False(t, w.granted.Valid())
	})
}

// Each bad request gets exactly one answer. The answer has an error, and repeats the ID and the lock's name from the request.
func TestFault_BadRequestsAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		w := newWatched(t, p)
		kind := protocol.Kind(p.Kind.Name)
		bad := badRequests(p, kind, w.granted.Serial)
		answers := map[reflect.Type]int{}
		for _, request := range bad {
			w.stranger.Ask(request)
			answer := reflect.ValueOf(locktest.Answer[any](t, w.stranger)).Elem()
			answers[answer.Type()]++
			err := answer.FieldByName("Err").Interface().(error)
			assert.True(t, errors.Is(err, holdfast.ErrInvalid) || errors.Is(err, holdfast.ErrNotHeld), "%+v: %v", request, err)
			assert.Equal(t, reflect.ValueOf(request).FieldByName("ID").Uint(), answer.FieldByName("ID").Uint())
			assert.Equal(t, reflect.ValueOf(request).FieldByName("Lock").String(), answer.FieldByName("Lock").String())
		}
		assert.Len(t, answers, 4, "answers of every type: %v", answers)
		w.unharmed(t, p)
	})
}

func badRequests(p *locktest.Place, kind protocol.Kind, serial uint64) []any {
	bad := []any{
		protocol.Acquire{}, protocol.Release{}, protocol.Renew{}, protocol.Inspect{}, // without kind and name
		protocol.Acquire{ID: 1, Kind: kind, Lock: p.Name, Try: true, Wait: 1},
		protocol.Acquire{ID: 2, Kind: kind, Lock: p.Name, Lease: time.Minute, Wait: -1},
		protocol.Acquire{ID: 3, Kind: kind, Lock: p.Name, Lease: time.Minute, Try: true, Wait: time.Second},
		protocol.Acquire{ID: 4, Kind: kind, Lock: p.Name, Lease: -time.Second},
		protocol.Acquire{ID: 5, Kind: kind, Lock: p.Name, Owner: protocol.NewOwner("another runtime", 1)},
		protocol.Release{ID: 6, Kind: kind, Lock: p.Name},                                                           // no serial
		protocol.Release{ID: 7, Kind: kind, Lock: p.Name, Serial: serial + 1},                                       // nobody has this serial
		protocol.Release{ID: 8, Kind: kind, Lock: p.Name + "-2", Serial: serial},                                    // the serial is another lock's
		protocol.Renew{ID: 9, Kind: kind, Lock: p.Name, Lease: time.Second},                                         // no serial
		protocol.Renew{ID: 10, Kind: kind, Lock: p.Name + "-2", Serial: serial, Lease: time.Second},                 // the serial is another lock's
		protocol.Renew{ID: 11, Kind: kind, Lock: p.Name, Serial: serial},                                            // no lease
		protocol.Renew{ID: 12, Kind: kind, Lock: p.Name, Serial: serial, Lease: time.Second},                        // only the watchdog renews this lease
		protocol.Release{ID: 13, Kind: "no such kind", Lock: p.Name, Serial: serial},                                // the serial is another kind's
		protocol.Renew{ID: 14, Kind: protocol.Kind(strings.ToUpper(p.Kind.Name)), Lock: p.Name, Lease: time.Second}, // names of kinds are case-sensitive
	}
	for i, kind := range []protocol.Kind{protocol.KindPermitSemaphore, "semaphore", "latch"} { // what has no inspect
		bad = append(bad, protocol.Inspect{ID: uint64(500 + i), Kind: kind, Lock: p.Name})
	}
	for i, name := range []string{"", "a\x00b", "{}", "{a}{b}", "\xff", strings.Repeat("x", 513)} {
		bad = append(bad,
			protocol.Acquire{ID: uint64(100 + i), Kind: kind, Lock: name}, protocol.Release{ID: uint64(200 + i), Kind: kind, Lock: name},
			protocol.Renew{ID: uint64(300 + i), Kind: kind, Lock: name, Lease: time.Second}, protocol.Inspect{ID: uint64(400 + i), Kind: kind, Lock: name})
	}
	return bad
}

// Cancels get no answer of their own, and end only the acquire with the same ID and sender.
func TestFault_CancelsOfUnknownRequestsEndNothing(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		w := newWatched(t, p)
		w.stranger.Ask(p.AcquireMessage(5))
		p.WaitForWaiting(t, w.rt, 1)
		w.holder.Ask(cancel(p, 5))              // the request is somebody else's
		w.stranger.Ask(cancel(p, 6))            // there is no such request
		w.stranger.Ask(cancel(p.Another(t), 5)) // the request is for another lock
		w.holder.Ask(cancel(p, 1))              // the request is granted already
		bad := cancel(p, 5)
		bad.Kind = "no such kind"
		w.stranger.Ask(bad)
		unnamed := cancel(p, 5)
		unnamed.Lock = ""
		w.stranger.Ask(unnamed)
		assert.Len(t, w.reported(t, 2), 2, "the cancels with an unknown kind and without a name")
		w.stranger.Ask(p.AcquireMessage(5))
		require.ErrorIs(t, locktest.Answer[*protocol.Refused](t, w.stranger).Err, holdfast.ErrInvalid, "the ID is in use")
		w.stranger.Ask(cancel(p, 5))
		require.ErrorIs(t, locktest.Answer[*protocol.Refused](t, w.stranger).Err, holdfast.ErrNotAcquired)
		w.stranger.Ask(cancel(p, 5)) // once more
		assert.Empty(t, w.holder.Answers)
		w.unharmed(t, p)
	})
}

// Readers and writers of one name share an actor. A Cancel that names the reader does not end the wait of the writer with the same ID.
func TestFault_CancelsAreOfOneKind(t *testing.T) {
	t.Parallel()
	p := locktest.PlaceOf(t, "write lock")
	rt := p.Runtime(t, holdfast.Options{Lease: longLease})
	held := locktest.Acquire(t, p.Lock(rt))
	writer := locktest.NewActor(t, rt, p.Lock(rt))
	writer.Ask(p.AcquireMessage(1))
	p.WaitForWaiting(t, rt, 1)
	reader := cancel(p, 1)
	reader.Kind = protocol.KindRead
	writer.Ask(reader)
	writer.Ask(&protocol.Inspect{ID: 2, Kind: protocol.Kind(p.Kind.Name), Lock: p.Name}) // is handled after the cancel
	assert.Equal(t, 1, locktest.Answer[*protocol.Inspected](t, writer).State.Waiting)
	locktest.Release(t, held)
	locktest.Answer[*protocol.Granted](t, writer)
}

// A request for one lock may be sent to the PID of another. It reaches the right lock: all requests for one name are handled by the same actor.
func TestFault_RequestsToAnotherLocksPIDFindTheirWay(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		w := newWatched(t, p)
		for range 20 { // 16 actors share all names
			owner, astray := w.rt.NewOwner(), p.Another(t)
			byHandle := locktest.Acquire(t, astray.Lock(w.rt), holdfast.WithOwner(owner))
			again := astray.AcquireMessage(1)
			again.Owner = owner
			w.stranger.Ask(again) // to the PID of p
			granted := locktest.Answer[*protocol.Granted](t, w.stranger)
			assert.Equal(t, byHandle.ID(), granted.LeaseID, "it has entered the same lock again")
			w.stranger.Ask(astray.ReleaseMessage(2, granted.Serial))
			require.NoError(t, locktest.Answer[*protocol.Released](t, w.stranger).Err)
			locktest.Release(t, byHandle)
		}
		w.unharmed(t, p)
	})
}

// A serial is valid only with the name and the kind of its lease, even where one actor serves several kinds. An unknown serial is refused, too.
func TestFault_SerialsAreOfOneKind(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		w := newWatched(t, p)
		for _, kind := range []protocol.Kind{
			protocol.KindLock, protocol.KindFair, protocol.KindFenced, protocol.KindSpin, protocol.KindRead, protocol.KindWrite,
		} {
			if kind == protocol.Kind(p.Kind.Name) {
				continue
			}
			w.stranger.Ask(&protocol.Release{ID: 1, Kind: kind, Lock: p.Name, Serial: w.granted.Serial})
			require.ErrorIs(t, locktest.Answer[*protocol.Released](t, w.stranger).Err, holdfast.ErrNotHeld, kind)
			w.stranger.Ask(&protocol.Renew{ID: 2, Kind: kind, Lock: p.Name, Serial: w.granted.Serial, Lease: time.Second})
			require.ErrorIs(t, locktest.Answer[*protocol.Renewed](t, w.stranger).Err, holdfast.ErrNotHeld, kind)
		}
		for _, serial := range []uint64{0, w.granted.Serial - 1, w.granted.Serial + 1} {
			w.stranger.Ask(p.ReleaseMessage(3, serial))
			require.ErrorIs(t, locktest.Answer[*protocol.Released](t, w.stranger).Err, holdfast.ErrNotHeld, serial)
		}
		w.unharmed(t, p)
	})
}

// Serials are consecutive numbers, so an actor may send the serial of a goroutine's lease by mistake. The runtime refuses the message: only code that
// has the Lease itself can end or extend that lease.
func TestFault_SerialsOfGoroutinesMeanNothing(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		w := newWatched(t, p)
		q := p.Another(t)
		fixed := locktest.Acquire(t, q.Lock(w.rt), holdfast.WithLease(time.Minute))
		for off := range uint64(30) {
			serial := w.granted.Serial + off
			w.stranger.Ask(q.ReleaseMessage(1, serial))
			require.ErrorIs(t, locktest.Answer[*protocol.Released](t, w.stranger).Err, holdfast.ErrNotHeld, serial)
			w.stranger.Ask(&protocol.Renew{ID: 2, Kind: protocol.Kind(q.Kind.Name), Lock: q.Name, Serial: serial, Lease: time.Second})
			require.ErrorIs(t, locktest.Answer[*protocol.Renewed](t, w.stranger).Err, holdfast.ErrNotHeld, serial)
		}
		assert.True(t, fixed.Valid())
		assert.Greater(t, time.Until(fixed.ExpiresAt()), 30*time.Second, "nor has it been shortened")
		assert.True(t, q.Exists(t))
		locktest.Release(t, fixed)
		w.unharmed(t, p)
	})
}
