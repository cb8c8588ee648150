package counter

import (
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
