package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// One side holds a lock and the other sleeps while it waits. The release wakes the waiter, although the lease lasts another 30 s. The test
// measures the time from just before the release until the waiter has the lock.
func TestInterop_ReleaseWakesTheOtherSide(t *testing.T) {
	everywhere(t, all, func(t *testing.T, m *meeting) {
		stalls := locktest.WatchStalls(t, &locktest.Place{Addr: m.addr})
		ours, theirs := m.ours(t, 0), m.theirs(t, 0)
		for _, d := range [][2]side{{theirs, ours}, {ours, theirs}} {
			holder, waiter := d[0], d[1]
			t.Run(holder.String()+" holds", func(t *testing.T) {
				var took []time.Duration
				for range locktest.Scaled(20, 3) {
					took = append(took, m.handOver(t, holder, waiter))
				}
				slices.Sort(took)
				median, worst, stall := took[len(took)/2], took[len(took)-1], stalls.Take()
				if !m.kind.polls[waiter.String()] {
					assert.Less(t, median, 50*time.Millisecond+stall)
				}
				assert.Less(t, worst, time.Second+5*stall)
				m.report(t, fmt.Sprintf(handOver, holder, waiter), fmt.Sprintf("%s / %s ms", tenths(median), tenths(worst)))
			})
		}
	})
}

// Redisson gets a lingering lock within Options.Linger, although our side takes the lock again and again. On a busy machine a waiter may miss the
// moment in which the lock is free, and must then wait for Options.Linger again. So the test checks the median.
func TestInterop_LingerEndsForTheOtherSide(t *testing.T) {
	const linger = 300 * time.Millisecond
	everywhere(t, func(k kind) bool { return k.theirs == "lock" || k.theirs == "fenced" || k.theirs == "write" }, func(t *testing.T, m *meeting) {
		stalls := locktest.WatchStalls(t, &locktest.Place{Addr: m.addr})
		ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
		defer cancel()
		ours, theirs := m.lingering(t, linger).party(m.kind, m.name), m.theirs(t, 0).party(m.kind, m.name)
		// lingers takes and releases the lock, and reports whether the lock then lingers. At first the lock does not linger: our side has just
		// subscribed to the demands of others, and may have missed a demand for this lock.
		lingers := func() bool {
			return ours.take(ctx, 0) == nil && ours.give(ctx) == nil && m.look.Exists(ctx, m.name).Val() == 1
		}
		require.Eventually(t, lingers, locktest.Patience, time.Millisecond)
		using, stop := context.WithCancel(ctx)
		var user sync.WaitGroup
		var used atomic.Int64
		user.Go(func() {
			for ours.take(using, 0) == nil {
				assert.NoError(t, ours.give(ctx))
				used.Add(1)
			}
		})
		var took []time.Duration
		for range 7 {
			before := used.Load()
			require.Eventually(t, func() bool { return used.Load() > before }, locktest.Patience, time.Millisecond)
			began := time.Now()
			took = append(took, at(t, taking(t, theirs)).Sub(began))
			require.NoError(t, theirs.give(ctx))
		}
		stop()
		user.Wait()
		slices.Sort(took)
		assert.Less(t, took[len(took)/2], linger+50*time.Millisecond+5*stalls.Take())
		t.Log(took)
	})
}

func tenths(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }

// handOver returns how long it takes from the release by one side until the waiter on the other side has the lock.
func (m *meeting) handOver(t *testing.T, holder, waiter side) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	n := m.another(t)
	held, waits := n.held(t, holder, 0), waiter.party(m.kind.waiter(), n.name)
	granted := n.waiting(t, waiter, waits)
	began := time.Now()
	require.NoError(t, held.give(ctx))
	took := at(t, granted).Sub(began)
	if m.kind.counter != "latch" {
		require.NoError(t, waits.give(ctx))
	}
	return took
}

// held makes a new party acquire the lock, and returns the party.
func (m *meeting) held(t *testing.T, s side, lease time.Duration) party {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	require.NoError(t, s.set(ctx, m.kind, m.name, 1))
	p := s.party(m.kind, m.name)
	if m.kind.counter != "latch" {
		require.NoError(t, p.take(ctx, lease))
	}
	for m.kind.theirs == "red" && !complete(ctx, t, p) { // a test may free the first two members by force, and fails if one is not held
		require.NoError(t, p.give(ctx))
		require.NoError(t, p.take(ctx, lease))
	}
	return p
}

// complete reports whether a holder of a red lock holds all three members. Two are enough for a holder: on a busy machine the third may answer too
// late, and the holder then does not keep the third.
func complete(ctx context.Context, t *testing.T, p party) bool {
	t.Helper()
	if ours, ok := p.(*goParty); ok {
		return len(strings.Split(ours.lease.ID(), ",")) == len(memberNames(""))
	}
	all, err := p.held(ctx) // for a red lock, Redisson answers whether the thread holds all members
	require.NoError(t, err)
	return all
}

// grant says when a wait ended, and with which error.
type grant struct {
	at  time.Time
	err error
}

// waiting makes a party wait in the background, and returns when the party sleeps.
func (m *meeting) waiting(t *testing.T, s side, p party) <-chan grant {
	t.Helper()
	grants := taking(t, p)
	if !m.kind.polls[s.String()] {
		m.listened(t)
	}
	asleep(t, grants)
	return grants
}

// taking makes a party acquire in the background, and returns at once.
func taking(t *testing.T, p party) <-chan grant {
	grants := make(chan grant, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 2*locktest.Patience)
		defer cancel()
		err := p.take(ctx, 0)
		grants <- grant{time.Now(), err}
	}()
	return grants
}

// asleep fails the test if one of the waits has already ended. It pauses first, because a waiter tries once more between its subscription
// and its sleep.
func asleep(t *testing.T, waits ...<-chan grant) {
	t.Helper()
	<-time.After(20 * time.Millisecond)
	for _, grants := range waits {
		select {
		case g := <-grants:
			require.Fail(t, "the wait ended while another holder has the lock", "%v", g.err)
		default:
		}
	}
}

// at returns the time at which a wait ended, and blocks until then. It fails the test if the wait ended with an error.
func at(t *testing.T, grants <-chan grant) time.Time {
	t.Helper()
	g := <-grants
	require.NoError(t, g.err)
	return g.at
}
