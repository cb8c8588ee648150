package promises_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// These tests check the times of an election, in bubbles of testing/synctest, where time is exact.

// hall is an election in a bubble, with two candidates.
type hall struct {
	*parliament
	server *holdfasttest.Server
}

func inHall(t *testing.T, o holdfast.ElectionOptions, test func(t *testing.T, h *hall)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hall{server: holdfasttest.New(t)}
		h.parliament = newParliament(t, "chair", o, h.server.Runtime(), h.server.Runtime())
		test(t, h)
		for _, c := range h.candidates {
			if c.stop != nil {
				c.stop()
				assert.NoError(t, h.returned(c))
			}
		}
	})
}

// A leader that cannot reach Redis learns that its term is over before anybody else leads. It is a candidate again when it can reach Redis.
func TestElection_OutageEndsATermAtItsDeadlineAndNeverRun(t *testing.T) {
	for lease, within := range map[time.Duration]time.Duration{0: 30 * time.Second, 3 * time.Second: 3 * time.Second, 2 * time.Minute: 2 * time.Minute} {
		t.Run(within.String(), func(t *testing.T) {
			inHall(t, holdfast.ElectionOptions{Lease: lease}, func(t *testing.T, h *hall) {
				a, b := h.candidates[0], h.candidates[1]
				h.run(a)
				first := h.elected(a)
				h.run(b)
				<-time.After(10 * time.Minute)
				require.NoError(t, first.ctx.Err(), "a term has no time limit")
				synctest.Wait()
				h.server.Cut(h.candidates[0].rt)
				cut := time.Now()
				deadline := first.Lease.ExpiresAt()
				<-first.ctx.Done()
				assert.ErrorIs(t, context.Cause(first.ctx), holdfast.ErrLeaseLost)
				assert.InDelta(t, 0, time.Until(deadline).Seconds(), 0.001, "at the deadline")
				assert.Less(t, time.Since(cut), within)
				second := h.elected(b)
				assert.Same(t, b, second.candidate)
				assert.Less(t, time.Since(cut), within+2*time.Second)
				<-time.After(10 * time.Minute) // without Redis
				h.server.Heal(h.candidates[0].rt)
				synctest.Wait()
				<-time.After(30 * time.Second)
				second.Resign()
				third := h.elected(a, b)
				assert.Same(t, a, third.candidate)
			})
		})
	}
}

// After a leader resigns, the other candidates have a quarter of the lease to take over. If none of them does, the same candidate leads again.
func TestElection_ResignLeavesTheOthersTime(t *testing.T) {
	inHall(t, holdfast.ElectionOptions{Lease: 20 * time.Second}, func(t *testing.T, h *hall) {
		a := h.candidates[0]
		h.run(a)
		m := h.elected(a)
		for _, resign := range []func(){m.Resign, func() {
			m.end <- holdfast.ErrResign
			require.NoError(t, h.returned(a))
			h.run(a)
		}} {
			resign()
			resigned := time.Now()
			m = h.elected(a)
			assert.InDelta(t, 5, time.Since(resigned).Seconds(), 0.01)
		}
		m.end <- nil
		ended := time.Now()
		h.elected(a)
		assert.Less(t, time.Since(ended), time.Second, "nobody has resigned")
	})
}

// If the message about a change of leader is lost, Watch sees the change when it next reads Redis, within 30 s. If the link is down during a
// change, Watch sees the change as soon as the link is back.
func TestElection_LostMessageDelaysButLosesNothing(t *testing.T) {
	inHall(t, holdfast.ElectionOptions{}, func(t *testing.T, h *hall) {
		const key = "holdfast_leader:{chair}"
		watching, stop := context.WithCancel(t.Context())
		defer stop()
		seen := make(chan holdfast.Leader)
		go func() {
			defer close(seen)
			for l := range h.candidates[0].Watch(watching) {
				seen <- l
			}
		}()
		synctest.Wait()
		write := func(key string, fields ...any) {
			require.NoError(t, h.server.Client().HSet(t.Context(), key, fields...).Err())
		}
		write("chair", "somebody:1", "1")
		write(key, "grant", "somebody:1", "token", "5", "runtime", "somebody", "value", "v", "since", "1000") // without publishing a message
		written := time.Now()
		assert.Equal(t, holdfast.Leader{Value: "v", Runtime: "somebody", Token: 5, Since: time.Unix(1, 0)}, <-seen)
		assert.LessOrEqual(t, time.Since(written), 30*time.Second)

		<-time.After(time.Second)
		h.server.Cut(h.candidates[0].rt)
		write(key, "token", "6")
		<-time.After(time.Second)
		h.server.Heal(h.candidates[0].rt)
		healed := time.Now()
		assert.Equal(t, int64(6), (<-seen).Token)
		assert.Less(t, time.Since(healed), 5*time.Second)

		stop()
		_, open := <-seen
		assert.False(t, open)
	})
}

// If the hash that names the leader is lost, by a failover or because somebody deletes it, the leader writes it again.
func TestElection_LostHashIsWrittenAgain(t *testing.T) {
	inHall(t, holdfast.ElectionOptions{}, func(t *testing.T, h *hall) {
		a, b := h.candidates[0], h.candidates[1]
		h.run(a)
		m := h.elected(a)
		h.server.Lose("holdfast_leader:{chair}")
		_, err := b.Leader(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNoLeader)
		<-time.After(30 * time.Second)
		synctest.Wait()
		leader, err := b.Leader(t.Context())
		require.NoError(t, err)
		assert.Equal(t, m.Token, leader.Token)
		m.stop()
		require.NoError(t, h.returned(a))
		<-time.After(2 * time.Minute)
		assert.Zero(t, h.server.Client().Exists(t.Context(), "holdfast_leader:{chair}").Val(), "the hash does not stay for ever")
		h.run(a)
	})
}

// If Redis loses the keys of a term in a failover, the next term may have the same token. Watch yields the leader of that next term all the same.
func TestElection_WatchSeesALeaderWithTheTokenOfTheLast(t *testing.T) {
	inHall(t, holdfast.ElectionOptions{}, func(t *testing.T, h *hall) {
		watching, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		write := func(runtime string) {
			client := h.server.Client()
			require.NoError(t, client.HSet(t.Context(), "chair", runtime+":1", "1").Err())
			require.NoError(t, client.HSet(t.Context(), "holdfast_leader:{chair}",
				"grant", runtime+":1", "token", "5", "runtime", runtime, "value", runtime, "since", "1000").Err())
		}
		write("a")
		var seen []string
		for l := range h.candidates[0].Watch(watching) {
			if seen = append(seen, l.Value); len(seen) == 2 {
				break
			}
			write("b")
		}
		assert.Equal(t, []string{"a", "b"}, seen)
	})
}

// While Redis is unreachable, Leader returns an error within a third of the lease.
func TestElection_LeaderWithoutRedis(t *testing.T) {
	inHall(t, holdfast.ElectionOptions{}, func(t *testing.T, h *hall) {
		h.server.Cut(h.candidates[0].rt)
		began := time.Now()
		_, err := h.candidates[0].Leader(t.Context())
		assert.Error(t, err)
		assert.NotErrorIs(t, err, holdfast.ErrNoLeader)
		assert.LessOrEqual(t, time.Since(began), 10*time.Second)
		_, err = h.candidates[1].Leader(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrNoLeader)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("enough"))
		_, err = h.candidates[1].Leader(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		h.server.Heal(h.candidates[0].rt)
	})
}
