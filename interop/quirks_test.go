package interop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func kindOf(name string) kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	panic("no such kind: " + name)
}

// Redisson grants a read lock on the key of an exclusive lock that is held. Our side refuses read and write locks there.
func TestRedisson_GrantsForeignKeys(t *testing.T) {
	atPlaces(t, func(t *testing.T, p *place) {
		ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
		defer cancel()
		m := meet(t, p, kindOf("lock"))
		ours := m.ours(t, 0)
		held := m.held(t, ours, 0)
		for _, half := range []string{"read lock", "write lock"} {
			_, err := ours.party(kindOf(half), m.name).try(ctx, time.Second)
			assert.ErrorIs(t, err, holdfast.ErrForeignKey)
		}
		got, err := m.theirs(t, 0).party(kindOf("read lock"), m.name).try(ctx, time.Second)
		require.NoError(t, err)
		assert.True(t, got, "Redisson has changed for the better")
		require.NoError(t, m.look.Del(ctx, m.name).Err())
		assert.ErrorIs(t, held.give(ctx), holdfast.ErrLeaseLost)
	})
}

// A Redisson thread acquires the read lock while it holds the write lock. When it releases the read lock, its write lock is no
// longer renewed. Our side then gets the write lock, and the thread does not notice until it asks Redis.
func TestRedisson_ReleasedReaderEndsTheWritersWatchdog(t *testing.T) {
	atPlaces(t, func(t *testing.T, p *place) {
		const lease = 2 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
		defer cancel()
		m := meet(t, p, kindOf("write lock"))
		theirs := m.theirs(t, lease)
		write, read := m.held(t, theirs, 0), theirs.party(kindOf("read lock"), m.name).(*javaParty)
		read.thread = write.(*javaParty).thread
		require.NoError(t, read.take(ctx, 0))
		require.NoError(t, read.give(ctx))
		ours := m.ours(t, 0).party(m.kind, m.name)
		got, err := ours.try(ctx, 3*lease)
		require.NoError(t, err)
		assert.True(t, got, "Redisson has changed for the better")
		m.over(t, theirs, write)
		m.stillHeld(t, ours)
	})
}

// A permit without a lease is lost when its holder dies: Redisson has no watchdog for permits, and such a permit never expires.
func TestRedisson_PermitWithoutLeaseHasNoEnd(t *testing.T) {
	atPlaces(t, func(t *testing.T, p *place) {
		m := meet(t, p, kindOf("permit semaphore"))
		held := m.held(t, m.theirs(t, 0), 0)
		out, err := m.look.ZRangeWithScores(t.Context(), "{"+m.name+"}:timeout", 0, -1).Result()
		require.NoError(t, err)
		require.Len(t, out, 1)
		assert.EqualValues(t, 922337203685477, out[0].Score)
		assert.Len(t, out[0].Member, 16)
		m.stillHeld(t, held)
	})
}

// Behind Sentinel, Redisson sends a WAIT for the replica after every script. So the tests at that place cover WAIT as well.
func TestRedisson_WaitsForTheReplica(t *testing.T) {
	redisson(t)
	m := meet(t, sentinel(t), kindOf("lock"))
	m.stillHeld(t, m.held(t, m.theirs(t, 0), 0))
	assert.Contains(t, m.look.Info(t.Context(), "commandstats").Val(), "cmdstat_wait:")
}
