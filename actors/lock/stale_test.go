package lock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/scripts"
)

// An actor may have had another name before. Then it may get messages about the grants of that name, and the result of a call that was in flight when
// the last of these grants ended. They change nothing.
func TestStep_IgnoresMessagesAboutAnotherName(t *testing.T) {
	t.Parallel()
	for _, kind := range []*scripts.Kind{scripts.Lock, scripts.FairLock} {
		p := newPlayer(t, "a late result")
		p.Kind = kind
		p.start()
		for _, line := range []string{"@0ms acquire a lease=10s", "@1ms granted", "@2.5s extend a 20s"} {
			p.Play(line)
		}
		call, grant := p.calls[0], p.grants["g1"]
		require.Equal(t, callExtend, call.do)
		p.state.Step(2600*time.Millisecond, lease.Gone{Grant: grant})
		require.True(t, p.state.Idle())
		next := New(&p.Policy, &lease.Address{Kind: scripts.FairLock, Name: "invoices", Raw: "invoices"}, nil, p.state)
		late := &callDone{call: call, class: scripts.Done}
		late.acquired.Next = p.Policy.Runtime + ":9" // a group that served this result would release the grant that it names
		for _, message := range []any{lease.Due{Grant: grant}, lease.Gone{Grant: grant}, late} {
			require.Empty(t, next.Step(3*time.Second, message))
		}
		require.True(t, next.Idle())
	}
}
