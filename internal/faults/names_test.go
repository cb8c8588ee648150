package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// The key of another lock's queue, token or timeout cannot be used as a lock name: it is refused, and the key stays as it is.
func TestFault_NamesThatAreKeysOfOthers(t *testing.T) {
	t.Parallel()
	places := locktest.OnOneServer(t)
	p := places[0]
	rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
	used := []string{"fair", "fenced", "read", "permits", "semaphore"}
	held := []*holdfast.Lease{
		locktest.Acquire(t, rt.FairLock("fair")), locktest.Acquire(t, rt.FencedLock("fenced")), locktest.Acquire(t, rt.RWLock("read").Read()),
	}
	waiting := other.FairLock("fair").AcquireAsync(t.Context())
	locktest.Await(t, "the queue", func() bool { return len(p.KeysLike(t, "holdfast_waiting:*")) == 1 })
	_, err := rt.PermitSemaphore("permits").TrySetPermits(t.Context(), 2)
	require.NoError(t, err)
	held = append(held, locktest.AcquirePermit(t, rt.PermitSemaphore("permits")))
	results := []string{
		copiedResult(t, p, "permits", rt.PermitSemaphore("permits").AddPermits),
		copiedResult(t, p, "semaphore", rt.Semaphore("semaphore").AddPermits),
	}

	keys := slices.DeleteFunc(p.KeysLike(t, "*"), func(key string) bool {
		return slices.Contains(used, key) || strings.HasPrefix(key, "holdfast_attempt:")
	})
	require.GreaterOrEqual(t, len(keys), 4, "%q", keys)
	for _, key := range append(keys, results...) {
		before := contentOf(t, p, key)
		for _, p := range places {
			lease, err := p.Named(key).Lock(other).TryAcquire(t.Context())
			assert.Nil(t, lease)
			assert.True(t, errors.Is(err, holdfast.ErrForeignKey) || errors.Is(err, holdfast.ErrNotAcquired), "%s %q: %v", p.Kind.Name, key, err)
		}
		assert.Equal(t, before, contentOf(t, p, key), "%q", key)
	}
	for _, lease := range held {
		assert.True(t, lease.Valid())
		locktest.Release(t, lease)
	}
	next, err := waiting.Lease()
	require.NoError(t, err)
	locktest.Release(t, next)
}

// copiedResult changes the number of permits. Redis stores the result of this change under a key, which the runtime soon deletes. Before that,
// copiedResult copies the key. The copy stays, and looks like the result of another change. copiedResult returns the key of the copy.
func copiedResult(t *testing.T, p *locktest.Place, name string, change func(ctx context.Context, delta int) error) (key string) {
	locktest.Await(t, "a result", func() bool {
		require.NoError(t, change(t.Context(), 1))
		there := p.KeysLike(t, "holdfast_attempt:{"+name+"}:*")
		if len(there) == 0 {
			return false
		}
		key = there[0] + "0"
		return p.Redis.Copy(t.Context(), there[0], key, 0, false).Val() == 1
	})
	require.NoError(t, p.Redis.Persist(t.Context(), key).Err())
	return key
}

// contentOf returns the content of a key, without the times that grow whenever a waiter asks again. These times are the scores of a sorted set, and
// the values of the hash holdfast_waiting.
func contentOf(t *testing.T, p *locktest.Place, key string) string {
	switch {
	case p.Redis.Type(t.Context(), key).Val() == "zset":
		return fmt.Sprint(p.Redis.ZRange(t.Context(), key, 0, -1).Val())
	case strings.HasPrefix(key, "holdfast_waiting:"):
		return fmt.Sprint(p.Redis.HKeys(t.Context(), key).Val())
	}
	return p.Redis.Dump(t.Context(), key).Val()
}

// A name is never used as a pattern, code or format, no matter what it looks like. Only the lock of that name is touched.
func TestFault_NamesAreNoPatterns(t *testing.T) {
	t.Parallel()
	names := []string{
		"*", "?", "[a-z]", "a*", "ab", `\*`, "%s%d", `'`, `"`, "]]", "--", "' .. redis.call('flushall') .. '", "${a}", "$(a)", "../a", "a b", "a\u00a0b", "a\u202eb", "KEYS[1]",
	}
	for _, p := range locktest.OnOneServer(t) {
		rt, other := p.Runtime(t, holdfast.Options{Lease: longLease}), p.Runtime(t, holdfast.Options{})
		leases := map[string]*holdfast.Lease{}
		for _, name := range names {
			leases[name] = locktest.Acquire(t, p.Named(name).Lock(rt))
		}
		for _, name := range names {
			q := p.Named(name)
			_, err := q.Lock(other).TryAcquire(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired, "%q", name)
			freed, err := q.Lock(other).ForceRelease(t.Context())
			require.NoError(t, err)
			assert.True(t, freed, "%q", name)
			delete(leases, name)
			for neighbour, lease := range leases {
				assert.Equal(t, map[string]string{lease.ID(): "1"}, p.Named(neighbour).Fields(t), "%q, after the end of %q", neighbour, name)
			}
		}
		require.NoError(t, rt.Close(t.Context()))
	}
	for _, bad := range []string{"a\nb", "a\x00b", "a\x1b[31mb", "\xff"} {
		rt := locktest.Somewhere(t).Runtime(t, holdfast.Options{})
		_, err := rt.Lock(bad).TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.NotContains(t, err.Error(), bad, "it is quoted")
	}
}
