package api

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/outbox"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// desk is an API, an actor that sends requests to it, and the answers and events that result.
type desk struct {
	API
	sender  *actor.PID
	answers chan any
	events  chan protocol.Event
}

func newDesk(t *testing.T) *desk {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	d := &desk{answers: make(chan any, 1), events: make(chan protocol.Event, 1)}
	d.sender = system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		if _, started := c.Message().(*actor.Started); !started {
			d.answers <- c.Message()
		}
	}))
	events := outbox.NewEvents(slog.New(slog.DiscardHandler), func(e protocol.Event) { d.events <- e })
	d.API = API{Config{
		System: system, Events: events, Outbox: outbox.New(clock.NewSystem(), system.Root, events), Runtime: "f4a0c9de-8f0f-4d4e-b7b9-5d1c3b1d2e4f",
		Address: func(kind *scripts.Kind, name string) (lease.Address, error) {
			return lease.Address{Kind: kind, Name: name, Raw: name}, protocol.CheckName(name)
		},
	}}
	t.Cleanup(system.Shutdown)
	return d
}

// A message of the API becomes a request, whether it is a value or a pointer.
func TestRead_MakesARequest(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	m := protocol.Acquire{ID: 7, Kind: scripts.Lock.Name, Lock: "orders", Wait: time.Second}
	for _, message := range []any{m, &m} {
		q, ok := d.Read(message, d.sender)
		require.True(t, ok)
		assert.Equal(t, wait.Acquire, q.Do)
		assert.Equal(t, uint64(7), q.ID)
		assert.Equal(t, "orders", q.Address.Name)
		assert.Equal(t, time.Second, q.Wait)
		assert.Equal(t, lease.Ref(d.sender), q.Requester)
	}
}

// An invalid request is refused, and the answer repeats the kind and the name of the lock.
func TestRead_AnswersAWrongRequest(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for what, message := range map[string]protocol.Acquire{
		"unknown kind": {ID: 1, Kind: "unheard of", Lock: "orders"},
		"name":         {ID: 1, Kind: scripts.Lock.Name, Lock: ""},
		"negative":     {ID: 1, Kind: scripts.Lock.Name, Lock: "orders", Wait: -1},
		"try":          {ID: 1, Kind: scripts.Lock.Name, Lock: "orders", Wait: 1, Try: true},
	} {
		_, ok := d.Read(message, d.sender)
		assert.False(t, ok, what)
		refused := (<-d.answers).(*protocol.Refused)
		require.ErrorIs(t, refused.Err, protocol.ErrInvalid, what)
		assert.Contains(t, refused.Err.Error(), what)
		assert.Equal(t, []any{uint64(1), message.Kind, message.Lock}, []any{refused.ID, refused.Kind, refused.Lock})
	}
}

// A message that cannot be answered is reported.
func TestRead_ReportsWhatItCannotAnswer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	long := strings.Repeat("x", protocol.MaxName+1)
	release := protocol.Release{ID: 1, Kind: scripts.Lock.Name, Lock: long}
	for reason, message := range map[string]struct {
		content any
		sender  *actor.PID
	}{
		"unknown message string":  {"hello", d.sender},
		"unknown message *":       {(*protocol.Acquire)(nil), d.sender},
		"without a sender":        {release, nil},
		"no actor of this system": {release, actor.NewPID("elsewhere:1", "someone")},
		"cancel: invalid":         {protocol.Cancel{ID: 1, Kind: scripts.Lock.Name, Lock: ""}, d.sender},
	} {
		_, ok := d.Read(message.content, message.sender)
		assert.False(t, ok, reason)
		dropped := (<-d.events).(protocol.RequestDropped)
		assert.Contains(t, dropped.Reason, reason)
		assert.Less(t, len(dropped.Name), protocol.MaxName, "the name is cut")
	}
	assert.Empty(t, d.answers)
}
