package pubsub

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// standstill is an actor that takes messages and does nothing about them.
type standstill struct{ messages []any }

func (s *standstill) SendUserMessage(_ *actor.PID, message any) {
	s.messages = append(s.messages, message)
}
func (s *standstill) SendSystemMessage(*actor.PID, any) {}
func (s *standstill) Stop(*actor.PID)                   {}

// While the subscriber does nothing, a flood costs it one message, and the link what it knows of each channel; nothing is missed.
func TestLink_FloodIsOneMessage(t *testing.T) {
	const flood, channels = 1_000_000, 100
	system, owner := actor.NewActorSystem(), &standstill{}
	defer system.Shutdown()
	pid, _ := system.ProcessRegistry.Add(owner, "owner")
	l := &link{config: &Config{Root: system.Root}, owner: pid, told: map[string]channelNews{}}
	var messages [channels]*redis.Message
	for i := range messages {
		messages[i] = &redis.Message{Channel: fmt.Sprintf("channel %d", i)}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range flood {
		require.NoError(t, l.take(messages[i%channels]))
	}
	runtime.ReadMemStats(&after)

	assert.Equal(t, []any{linkNews{l}}, owner.messages)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "bytes allocated")
	news := l.news()
	assert.Len(t, news, channels)
	for channel, n := range news {
		assert.Equal(t, channelNews{messages: flood / channels}, n, channel)
	}
	require.NoError(t, l.take(messages[0]))
	assert.Len(t, owner.messages, 2, "and the next one is told again")
}
