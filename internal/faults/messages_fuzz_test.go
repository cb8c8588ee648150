package faults_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

// Actors send arbitrary messages to a runtime, with arbitrary values. Each request is answered once, nothing panics, and no lock
// is left in Redis.
func FuzzMessages_AreAnsweredOnce(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 1}) // acquire, release
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 4, 3, 0, 0})
	f.Add([]byte("acquire and cancel and release and renew and inspect, with all that there is"))
	f.Add([]byte{0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 7, 9, 9, 255, 255, 255, 255, 255, 255, 255, 127, 3, 9, 0, 0, 1, 9, 128, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 500 {
			return
		}
		m := newMessenger(t, script)
		for len(m.script) > 0 {
			m.say()
		}
		m.end()
	})
}

// messenger sends messages made from a script of arbitrary bytes, and counts the answers.
type messenger struct {
	*locktest.Actor
	t      *testing.T
	script []byte
	rt     *holdfast.Runtime
	events locktest.Recorder
	names  []string
	owners []protocol.Owner

	cancels []*protocol.Cancel
	open    map[string]int // unanswered requests, by type and ID
	serial  uint64         // of the latest lease
}

func newMessenger(t *testing.T, script []byte) *messenger {
	p := locktest.Somewhere(t)
	m := &messenger{t: t, script: script, open: map[string]int{}}
	m.rt = p.Runtime(t, holdfast.Options{OnEvent: m.events.Record})
	m.Actor = locktest.NewActor(t, m.rt, m.rt.Lock(p.Name))
	m.names = []string{p.Name, p.Name + "{a}", "", "a{}b", strings.Repeat("x", 513), "\xff"}
	m.owners = []protocol.Owner{{}, m.rt.NewOwner(), m.rt.NewOwner(), protocol.NewOwner(m.rt.ID(), 0), protocol.NewOwner("another", 1)}
	return m
}

// byte returns the next byte of the script, 0 at the end.
func (m *messenger) byte() byte {
	if len(m.script) == 0 {
		return 0
	}
	b := m.script[0]
	m.script = m.script[1:]
	return b
}

// number returns a number, mostly a small one.
func (m *messenger) number() uint64 {
	b := m.byte()
	if b < 128 {
		return uint64(b % 8)
	}
	var bytes [8]byte
	for i := range bytes {
		bytes[i] = m.byte()
	}
	return binary.LittleEndian.Uint64(bytes[:])
}

func (m *messenger) duration() time.Duration {
	usual := []time.Duration{0, 0, time.Second, time.Millisecond, 50 * time.Millisecond, time.Hour, 24*time.Hour + 1, -1}
	if n := m.number(); n >= uint64(len(usual)) {
		return time.Duration(n)
	} else {
		return usual[n]
	}
}

func (m *messenger) kind() protocol.Kind {
	kinds := []protocol.Kind{
		protocol.KindLock, protocol.KindFair, protocol.KindFenced, protocol.KindSpin, protocol.KindRead, protocol.KindWrite,
		protocol.KindPermitSemaphore, protocol.KindSemaphore, protocol.KindLatch, "", "Lock", "\x00", protocol.Kind(strings.Repeat("k", 1000)),
	}
	return kinds[m.byte()%byte(len(kinds))]
}

func (m *messenger) name() string {
	b := m.byte()
	if b >= 200 {
		return m.names[0] + string(m.script[:min(len(m.script), int(b)-200)])
	}
	return m.names[b%byte(len(m.names))]
}

// say sends one message.
func (m *messenger) say() {
	do, id, kind, name := m.byte(), m.number(), m.kind(), m.name()
	switch do % 6 {
	case 0, 5:
		request := protocol.Acquire{
			ID: id, Kind: kind, Lock: name, Owner: m.owners[m.byte()%byte(len(m.owners))], Lease: m.duration(), Wait: m.duration(), Try: m.byte()%2 == 1,
		}
		if m.byte()%4 == 3 {
			request.Backoff = protocol.Backoff{Initial: m.duration(), Max: m.duration(), Multiplier: math.Float64frombits(m.number())}
		}
		m.cancels = append(m.cancels, &protocol.Cancel{ID: id, Kind: kind, Lock: name})
		m.request("acquire", id, request)
	case 1:
		m.Ask(&protocol.Cancel{ID: id, Kind: kind, Lock: name})
	case 2:
		m.request("release", id, &protocol.Release{ID: id, Kind: kind, Lock: name, Serial: m.which()})
	case 3:
		m.request("renew", id, protocol.Renew{ID: id, Kind: kind, Lock: name, Serial: m.which(), Lease: m.duration()})
	case 4:
		m.request("inspect", id, &protocol.Inspect{ID: id, Kind: kind, Lock: name})
	}
}

// which draws the serial for a request, mostly that of the latest lease.
func (m *messenger) which() uint64 {
	for len(m.Answers) > 0 {
		m.take(<-m.Answers)
	}
	if n := m.number(); n > 1 {
		return n
	}
	return m.serial
}

func (m *messenger) request(do string, id uint64, message any) {
	m.open[fmt.Sprint(do, id)]++
	m.Ask(message)
}

// take receives an answer.
func (m *messenger) take(answer any) {
	switch a := answer.(type) {
	case *protocol.Granted:
		m.answered("acquire", a.ID)
		m.serial = a.Serial
		m.names = append(m.names, a.Lock)
		m.release(a)
	case *protocol.Refused:
		m.answered("acquire", a.ID)
		require.Error(m.t, a.Err)
	case *protocol.Released:
		m.answered("release", a.ID)
	case *protocol.Renewed:
		m.answered("renew", a.ID)
	case *protocol.Inspected:
		m.answered("inspect", a.ID)
	case *protocol.Lost:
		require.Error(m.t, a.Err)
	default:
		m.t.Fatalf("a message that is no answer: %T %+v", a, a)
	}
}

// release sometimes releases a lease at once. If it does not, the lease ends by a later message of the script, or with the actor.
func (m *messenger) release(a *protocol.Granted) {
	if m.byte()%2 == 1 {
		m.request("release", a.Serial, &protocol.Release{ID: a.Serial, Kind: a.Kind, Lock: a.Lock, Serial: a.Serial})
	}
}

func (m *messenger) answered(do string, id uint64) {
	key := fmt.Sprint(do, id)
	m.open[key]--
	require.GreaterOrEqual(m.t, m.open[key], 0, "%s is answered more often than asked", key)
	if m.open[key] == 0 {
		delete(m.open, key)
	}
}

// end cancels the waiting requests, so that each is answered. Held leases end with their actor.
func (m *messenger) end() {
	for _, cancel := range m.cancels {
		m.Ask(cancel)
	}
	for late := time.After(locktest.Patience); len(m.open) > 0; {
		select {
		case answer := <-m.Answers:
			m.take(answer)
		case <-late:
			require.Empty(m.t, m.open, "not answered")
		}
	}
	m.Stop()
	ctx := m.t.Context()
	require.NoError(m.t, m.rt.Close(ctx))
	require.Empty(m.t, locktest.Recorded[holdfast.ActorPanicked](&m.events))
	p := locktest.Somewhere(m.t)
	for _, name := range m.names {
		require.Zero(m.t, p.Redis.Exists(ctx, name).Val(), "%q is left", name)
	}
}
