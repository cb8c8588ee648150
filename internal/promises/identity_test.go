package promises_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Two processes that continue from one snapshot of a virtual machine have the same UUID, and the same number for their next ID. They still exclude
// each other.
func TestIdentity_TwinIsRefused(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		const id, first = "f4a0c9de-8f0f-4d4e-b7b9-5d1c3b1d2e4f", 1 << 40
		twins := [2]*holdfast.Runtime{}
		for i := range twins {
			system := locktest.SystemWith(t, &actors.Seams{ID: id, First: first})
			twins[i] = locktest.NewRuntime(t, p.Client(t), holdfast.Options{System: system})
		}
		for i := range locktest.Scaled(200, 20) {
			q := p.Another(t)
			lease := locktest.Acquire(t, q.Lock(twins[i%2]))
			_, err := q.Lock(twins[1-i%2]).TryAcquire(t.Context())
			require.ErrorIs(t, err, holdfast.ErrNotAcquired)
			locktest.Release(t, lease)
			other := locktest.Acquire(t, q.Lock(twins[1-i%2]))
			require.Equal(t, map[string]string{other.ID(): "1"}, q.Fields(t))
			assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrNotHeld)
			assert.True(t, other.Valid())
			locktest.Release(t, other)
		}
	})
}

// The UUID and the first number are random, because a process id, a host name or an address may be the same in every container. Every digit of
// the UUID varies, except the version, and the numbers are far from one another.
func TestIdentity_IsRandom(t *testing.T) {
	t.Parallel()
	const runtimes, fixed = 20, "xxxxxxxx-xxxx-4xxx-xxxx-xxxxxxxxxxxx"
	var digits [len(fixed)]map[byte]bool
	numbers := map[uint64]bool{}
	for range runtimes {
		rt := locktest.NewRuntime(t, locktest.NewClient(t, "127.0.0.1:1"), holdfast.Options{})
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, rt.ID())
		for i := range digits {
			if digits[i] == nil {
				digits[i] = map[byte]bool{}
			}
			digits[i][rt.ID()[i]] = true
		}
		_, text, _ := strings.Cut(rt.NewOwner().String(), ":")
		number, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		numbers[number>>32] = true // the upper 20 of 52 bits
	}
	for i, seen := range digits {
		if fixed[i] == 'x' {
			assert.Greater(t, len(seen), 1, "digit %d is always the same", i)
		}
	}
	assert.Greater(t, len(numbers), runtimes/2, "numbers that are close together")
}
