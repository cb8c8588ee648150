package faults_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A master of a cluster that has lost its scripts, for example after a failover, gets the scripts of an election again, even while another master is
// silent.
func TestFault_ElectionBesideASilentMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, locktest.Patience)
	rt := locktest.NewRuntime(t, locktest.ClusterClient(t, cluster), holdfast.Options{})
	e := rt.Election(nameIn(t, 16000), holdfast.ElectionOptions{})
	_, err := e.Leader(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNoLeader)
	require.NoError(t, cluster.Masters[2].Client(t).ScriptFlush(t.Context()).Err())
	cluster.Masters[0].Pause()
	t.Cleanup(cluster.Masters[0].Resume)
	require.NoError(t, e.Run(t.Context(), func(ctx context.Context, term holdfast.Term) error {
		leader, err := e.Leader(ctx)
		assert.NoError(t, err)
		assert.Equal(t, term.Token, leader.Token, "it is announced")
		return holdfast.ErrResign
	}))
}

// If a hook of the client panics, an election's call to Redis returns an error, and the process keeps running.
func TestFault_ElectionAndAHookThatPanics(t *testing.T) {
	t.Parallel()
	client := locktest.NewClient(t, redistest.Start(t).Addr())
	client.AddHook(panicking{})
	rt := locktest.NewRuntime(t, client, holdfast.Options{Lease: shortLease})
	_, err := rt.Election("orders", holdfast.ElectionOptions{}).Leader(t.Context())
	assert.ErrorContains(t, err, "of the hook")
}

// panicking is a hook that panics at each script.
type panicking struct{}

func (panicking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (panicking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == "evalsha" {
			panic("of the hook")
		}
		return next(ctx, command)
	}
}

func (panicking) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { panic("of the hook") }
}
