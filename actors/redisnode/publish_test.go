package redisnode

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/rpc"
)

// replying is a hook that answers the commands of a client without a server, except pipelines.
type replying struct {
	redis.Hook
	reply func(name string) (any, error)
}

func (r replying) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r replying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (r replying) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		reply, err := r.reply(cmd.Name())
		if err != nil {
			cmd.SetErr(err)
			return err
		}
		cmd.(interface{ SetVal(any) }).SetVal(reply)
		return nil
	}
}

// serverError is what a server replies.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

// standIn makes a client that answers by itself and connects to nothing.
func standIn(t *testing.T, reply func(name string) (any, error)) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	client.AddHook(replying{reply: reply})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

// Messages are plain only if the server does not know the command for sharded messages, or does not allow it. An error that may pass decides
// nothing.
func TestTelling_Decides(t *testing.T) {
	t.Parallel()
	replying := func(reply error) *redis.Client {
		return standIn(t, func(string) (any, error) { return []any{}, reply })
	}
	for reply, want := range map[string]string{
		"": "SPUBLISH",
		"ERR Unknown subcommand or wrong number of arguments for 'shardnumsub'. Try PUBSUB HELP.": "PUBLISH",
		"ERR unknown subcommand 'shardnumsub'. Try PUBSUB HELP.":                                  "PUBLISH",
		"NOPERM this user has no permissions to run the 'pubsub|shardnumsub' command":             "PUBLISH",
	} {
		tells, err := &PublishMode{auto: true}, error(nil)
		if reply != "" {
			err = serverError(reply)
		}
		require.NoError(t, tells.decide(t.Context(), replying(err)), reply)
		command, _ := tells.MarshalBinary()
		assert.Equal(t, want, string(command), reply)
	}
	for _, passing := range []error{
		serverError("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
		serverError("LOADING Redis is loading the dataset in memory"),
		serverError("NOAUTH Authentication required."),
		serverError("CLUSTERDOWN The cluster is down"),
		serverError("MASTERDOWN Link with MASTER is down"),
		serverError("ERR max number of clients reached"),
		rpc.ErrNoAnswer,
	} {
		tells := &PublishMode{auto: true}
		require.ErrorIs(t, tells.decide(t.Context(), replying(passing)), passing)
		require.NoError(t, tells.decide(t.Context(), replying(nil)))
		assert.True(t, tells.sharded.Load(), passing)
	}
}

// While a cluster is being upgraded, only some of its masters may support sharded messages. If several are asked at the same time, the first
// answer decides for all.
func TestTelling_DecidesOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		tells := &PublishMode{auto: true}
		var said sync.Map
		var group sync.WaitGroup
		for i := range 8 {
			var reply error
			if i%2 == 0 {
				reply = serverError("ERR unknown subcommand")
			}
			client := standIn(t, func(string) (any, error) { return []any{}, reply })
			group.Go(func() {
				assert.NoError(t, tells.decide(t.Context(), client))
				said.Store(tells.sharded.Load(), true)
			})
		}
		group.Wait()
		kinds := 0
		said.Range(func(any, any) bool { kinds++; return true })
		assert.Equal(t, 1, kinds)
	}
}
