package faults_test

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Many locks that are acquired at the same time share one script call. If one of them is refused, the others are still granted. A lock may be refused
// because its key holds something that is not a lock, or because the ACL of the Redis user does not allow its key. If the ACL does not allow one of
// the keys, Redis refuses the whole call. Then the runtime sends a separate call for each lock.
func TestFault_OneOfManyIsRefused(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	const many = 40
	require.NoError(t, p.Redis.ACLSetUser(t.Context(), "some", "on", ">right", "+@all", "&*", "~*name*").Err())
	client := locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Username: "some", Password: "right"})
	for what, wrong := range map[string]struct {
		name string
		say  string
	}{
		"a key of another kind": {"name:typed", "WRONGTYPE"},
		"a name without right":  {"nobody's", "NOPERM"},
	} {
		t.Run(what, func(t *testing.T) {
			require.NoError(t, p.Redis.Set(t.Context(), "name:typed", "text", 0).Err())
			rt := locktest.NewRuntime(t, client, holdfast.Options{})
			before := p.Server.CommandStats(t, "evalsha")["evalsha"]
			var asked []*holdfast.Pending
			for i := range many {
				name := what + ":name:" + strconv.Itoa(i)
				if i == many/2 {
					name = wrong.name
				}
				asked = append(asked, rt.Lock(name).AcquireAsync(t.Context()))
			}
			for i, pending := range asked {
				lease, err := pending.Lease()
				if i == many/2 {
					require.ErrorContains(t, err, wrong.say)
					continue
				}
				require.NoError(t, err)
				locktest.Release(t, lease)
			}
			if wrong.say != "NOPERM" {
				assert.Less(t, p.Server.CommandStats(t, "evalsha")["evalsha"]-before, int64(2*many), "many in one call")
			}
		})
	}
}

// When the server has forgotten its scripts, the runtime loads them again. This includes the scripts that acquire or release many locks in one call.
func TestFault_ScriptsForManyAreForgotten(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	rt := p.Runtime(t, holdfast.Options{})
	for round := range 5 {
		require.NoError(t, p.Redis.ScriptFlush(t.Context()).Err())
		var asked []*holdfast.Pending
		for i := range 50 {
			asked = append(asked, rt.Lock(p.Name+strconv.Itoa(i)).AcquireAsync(t.Context()))
		}
		var releases []func()
		for _, pending := range asked {
			lease, err := pending.Lease()
			require.NoError(t, err, "round %d", round)
			releases = append(releases, func() { assert.NoError(t, lease.Release(t.Context())) })
		}
		for _, release := range releases {
			release()
		}
	}
	assert.Empty(t, p.Keys(t))
}
