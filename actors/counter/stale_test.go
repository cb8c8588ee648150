package counter

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// An actor may have had another name before. If a confirmation for the channel of that name counted, the waiters would rely on messages that do not
// arrive yet.
func TestStep_IgnoresTheConfirmationOfAnotherChannel(t *testing.T) {
	t.Parallel()
	policy := &wait.Policy{Lease: time.Minute}
	policy.Jitter = func(time.Duration) time.Duration { return 0 }
	s := New(policy, &lease.Address{Kind: scripts.Semaphore, Name: "orders", Raw: "orders"})
	s.subscription.Begin(&s.Base, "channel")
	s.Step(0, wait.ChannelReady{Channel: "another channel"})
	require.Equal(t, wait.Subscribing, s.subscription.Watch)
	s.Step(0, wait.ChannelReady{Channel: "channel"})
	require.Equal(t, wait.Subscribed, s.subscription.Watch)
}

// The result says which leases of this process have ended. If the actor stopped or got another name before the result came, the holders of these
// leases would not learn that.
func TestStep_ACallThatMayEndLeasesKeepsTheActor(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{true, false} {
		policy := &wait.Policy{Lease: time.Minute, NewID: func() string { return "r1" }}
		s := New(policy, &lease.Address{Kind: scripts.PermitSemaphore, Name: "orders", Raw: "orders"})
		r := &wait.Request{Do: wait.Count, Address: s.Address, Count: scripts.PermitsRelease([]string{"p1"})}
		effects := s.Step(0, r)
		require.Len(t, effects, 1)
		call := effects[0].Call.(*countCall)
		if sent {
			require.True(t, call.Leave(0, 0))
		}
		effects = s.Step(0, wait.CancelRequest{Request: r, Cause: context.Canceled})
		require.Len(t, effects, 1)
		require.ErrorIs(t, r.Err, context.Canceled)
		require.Equal(t, !sent, s.Idle())
		if sent {
			require.ErrorContains(t, r.Err, "not confirmed, it may have been done")
			require.Empty(t, s.Step(0, &countDone{call: call, class: scripts.Unknown}), "nobody needs a repeat")
			require.True(t, s.Idle())
		}
	}
}
