package promises

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// told records what a Trace reports, one line for each call.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (n *told) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// take returns the lines that were recorded since the last call of take.
func (n *told) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	return lines
}

type requestKey struct{}

func (n *told) trace() *holdfast.Trace {
	return &holdfast.Trace{
		Acquiring: func(ctx context.Context, a holdfast.Acquiring) func(holdfast.Acquired) {
			n.add("acquiring %s %s try=%t ctx=%v", a.Kind, a.Name, a.Try, ctx.Value(requestKey{}))
			return func(a holdfast.Acquired) {
				n.add("acquired %s id=%t waited=%v local=%t attempts=%d token=%t err=%v",
					a.Name, a.ID != "", a.Waited, a.Local, a.Attempts, a.Token > 0, class(a.Err))
			}
		},
		Waiting: func(ctx context.Context, w holdfast.Waiting) {
			n.add("waiting %s %v holder=%t local=%t ahead=%d ctx=%v", w.Name, w.Waited, w.Holder != "", w.Local, w.Ahead, ctx.Value(requestKey{}))
		},
		Released: func(r holdfast.Released) { n.add("released %s held=%v err=%v", r.Name, r.Held, class(r.Err)) },
		Lost: func(l holdfast.Lost) {
			n.add("lost %s held=%v reason=%s fixed=%t", l.Name, l.Held.Round(time.Second), l.Reason, l.Fixed)
		},
	}
}

// class returns the text of the known error that an error matches, or the text of the error itself if it matches none.
func class(err error) string {
	for _, known := range []error{holdfast.ErrLeaseLost, holdfast.ErrClosed, holdfast.ErrNotAcquired} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprint(err)
}

// traced runs a test in a bubble of testing/synctest, with a runtime that is traced. At the end its Stats must say that nothing is held and nobody
// waits.
func traced(t *testing.T, test func(t *testing.T, server *holdfasttest.Server, rt *holdfast.Runtime, n *told)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, n := holdfasttest.New(t), &told{}
		rt := server.Runtime(holdfast.Options{Trace: n.trace(), SlowWait: time.Second})
		test(t, server, rt, n)
		require.NoError(t, rt.Close(t.Context()))
		s := rt.Stats()
		assert.Zero(t, s.Held)
		assert.Zero(t, s.Waiting)
		assert.Zero(t, s.Actors)
	})
}

func TestTrace_TellsOfAnAcquireAndARelease(t *testing.T) {
	traced(t, func(t *testing.T, _ *holdfasttest.Server, rt *holdfast.Runtime, n *told) {
		ctx := context.WithValue(t.Context(), requestKey{}, 7)
		lease, err := rt.FencedLock("orders").Acquire(ctx)
		require.NoError(t, err)
		_, err = rt.FencedLock("orders").TryAcquire(ctx)
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		<-time.After(2 * time.Second)
		require.NoError(t, lease.Release(ctx))
		require.ErrorIs(t, lease.Release(ctx), holdfast.ErrNotHeld)
		assert.Equal(t, []string{
			"acquiring fenced lock orders try=false ctx=7", "acquired orders id=true waited=0s local=false attempts=1 token=true err=<nil>",
			"acquiring fenced lock orders try=true ctx=7", "acquired orders id=false waited=0s local=false attempts=0 token=false err=not acquired",
			"released orders held=2s err=<nil>",
		}, n.take())
		s := rt.Stats()
		assert.Equal(t, []uint64{1, 0, 1, 1, 0}, []uint64{s.Acquired, s.HandedOn, s.Refused, s.Released, s.Lost})
		assert.GreaterOrEqual(t, s.Exchanges, uint64(2))
		assert.GreaterOrEqual(t, s.Scripts, s.Exchanges)
	})
}

// Each waiter of a fair lock has a place of its own in Redis' queue. Waiting.Ahead is the number of waiters of the same process that are
// ahead of the reported one.
func TestTrace_CountsWhoIsAheadInAFairLock(t *testing.T) {
	traced(t, func(t *testing.T, _ *holdfasttest.Server, rt *holdfast.Runtime, n *told) {
		lease, err := rt.FairLock("orders").Acquire(t.Context())
		require.NoError(t, err)
		var waiters []*holdfast.Pending
		for i := range 3 {
			waiters = append(waiters, rt.FairLock("orders").AcquireAsync(context.WithValue(t.Context(), requestKey{}, i)))
			synctest.Wait()
		}
		n.take()
		<-time.After(2 * time.Second)
		synctest.Wait()
		assert.ElementsMatch(t, []string{
			"waiting orders 1s holder=true local=true ahead=0 ctx=0", "waiting orders 1s holder=true local=true ahead=1 ctx=1",
			"waiting orders 1s holder=true local=true ahead=2 ctx=2",
		}, n.take())
		for _, next := range waiters {
			require.NoError(t, lease.Release(t.Context()))
			lease, err = next.Lease()
			require.NoError(t, err)
		}
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A slow wait is reported once, with the waiter's context. A lock that is handed on by a holder of the same process is reported as local.
func TestTrace_TellsOfASlowWaitAndAHandOver(t *testing.T) {
	traced(t, func(t *testing.T, _ *holdfasttest.Server, rt *holdfast.Runtime, n *told) {
		lease, err := rt.Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		n.take()
		first := rt.Lock("orders").AcquireAsync(context.WithValue(t.Context(), requestKey{}, "first"))
		second := rt.Lock("orders").AcquireAsync(context.WithValue(t.Context(), requestKey{}, "second"), holdfast.WithWait(3*time.Second))
		synctest.Wait()
		assert.Equal(t, 2, rt.Stats().Waiting)
		<-time.After(4 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{
			"acquiring lock orders try=false ctx=first", "acquiring lock orders try=false ctx=second",
			"waiting orders 1s holder=true local=true ahead=0 ctx=first", "waiting orders 1s holder=true local=true ahead=1 ctx=second",
			"acquired orders id=false waited=3s local=false attempts=0 token=false err=not acquired",
		}, n.take())
		require.NoError(t, lease.Release(t.Context()))
		next, err := first.Lease()
		require.NoError(t, err)
		_, err = second.Lease()
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.Len(t, n.take(), 2)
		third := rt.Lock("orders").AcquireAsync(t.Context())
		require.NoError(t, next.Release(t.Context()))
		next, err = third.Lease()
		require.NoError(t, err)
		assert.Equal(t, []string{
			"acquiring lock orders try=false ctx=<nil>",
			"acquired orders id=true waited=0s local=true attempts=0 token=false err=<nil>", "released orders held=0s err=<nil>",
		}, n.take())
		require.NoError(t, next.Release(t.Context()))
		assert.Equal(t, uint64(1), rt.Stats().HandedOn)
	})
}

// For each lease, the trace reports exactly one of Released and Lost, whatever ends the lease.
func TestTrace_TellsHowALeaseEnds(t *testing.T) {
	for name, c := range map[string]struct {
		options []holdfast.AcquireOption
		end     func(t *testing.T, server *holdfasttest.Server, rt *holdfast.Runtime, lease *holdfast.Lease)
		want    string
	}{
		"expired": {nil, func(t *testing.T, server *holdfasttest.Server, rt *holdfast.Runtime, lease *holdfast.Lease) {
			server.Cut(rt)
			<-lease.Done()
		}, "lost orders held=30s reason=expired fixed=false"},
		"fixed": {[]holdfast.AcquireOption{holdfast.WithLease(5 * time.Second)}, func(_ *testing.T, _ *holdfasttest.Server, _ *holdfast.Runtime, lease *holdfast.Lease) {
			<-lease.Done()
		}, "lost orders held=5s reason=expired fixed=true"},
		"at most": {[]holdfast.AcquireOption{holdfast.WithAtMost(40 * time.Second)}, func(_ *testing.T, _ *holdfasttest.Server, _ *holdfast.Runtime, lease *holdfast.Lease) {
			<-lease.Done()
		}, "lost orders held=40s reason=at most fixed=false"},
		"deleted": {nil, func(_ *testing.T, server *holdfasttest.Server, _ *holdfast.Runtime, lease *holdfast.Lease) {
			server.Lose("orders")
			<-lease.Done()
		}, "lost orders held=10s reason=deleted fixed=false"},
		"forced": {nil, func(t *testing.T, _ *holdfasttest.Server, rt *holdfast.Runtime, lease *holdfast.Lease) {
			_, err := rt.Lock("orders").ForceRelease(t.Context())
			require.NoError(t, err)
			<-lease.Done()
		}, "lost orders held=0s reason=force-released fixed=false"},
		"closed": {nil, func(t *testing.T, _ *holdfasttest.Server, rt *holdfast.Runtime, lease *holdfast.Lease) {
			require.NoError(t, rt.Close(t.Context()))
			require.NoError(t, lease.Release(t.Context()))
		}, "lost orders held=0s reason=closed fixed=false"},
		"released too late": {nil, func(t *testing.T, server *holdfasttest.Server, _ *holdfast.Runtime, lease *holdfast.Lease) {
			server.Lose("orders")
			require.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
		}, "released orders held=0s err=lease lost"},
	} {
		t.Run(name, func(t *testing.T) {
			traced(t, func(t *testing.T, server *holdfasttest.Server, rt *holdfast.Runtime, n *told) {
				lease, err := rt.Lock("orders").Acquire(t.Context(), c.options...)
				require.NoError(t, err)
				n.take()
				c.end(t, server, rt, lease)
				synctest.Wait()
				assert.Equal(t, []string{c.want}, n.take())
				s := rt.Stats()
				assert.Equal(t, uint64(1), s.Released+s.Lost)
				assert.Zero(t, s.Held)
				_ = lease.Release(t.Context())
				assert.Empty(t, n.take(), "the end was reported already")
				server.Heal(rt)
			})
		})
	}
}

// A valid acquire whose context has already ended is traced, too; an invalid acquire is not. Acquires of a semaphore's permits have no lease.
func TestTrace_TellsOfWhatIsRefusedAndOfPermits(t *testing.T) {
	traced(t, func(t *testing.T, _ *holdfasttest.Server, rt *holdfast.Runtime, n *told) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := rt.Lock("orders").Acquire(ended)
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		_, err = rt.Lock("").Acquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrInvalid)
		permits := rt.Semaphore("permits")
		_, err = permits.TrySetPermits(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, permits.Acquire(t.Context(), 1))
		require.ErrorIs(t, permits.TryAcquire(t.Context(), 1), holdfast.ErrNotAcquired)
		assert.Equal(t, []string{
			"acquiring lock orders try=false ctx=<nil>", "acquired orders id=false waited=0s local=false attempts=0 token=false err=not acquired",
			"acquiring semaphore permits try=false ctx=<nil>", "acquired permits id=false waited=0s local=false attempts=1 token=false err=<nil>",
			"acquiring semaphore permits try=true ctx=<nil>", "acquired permits id=false waited=0s local=false attempts=1 token=false err=not acquired",
		}, n.take())
		assert.Zero(t, rt.Stats().Held)
		require.NoError(t, permits.Release(t.Context(), 1))
	})
}

// A panic in a user's function does no harm, and is reported.
func TestTrace_SurvivesPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, n := holdfasttest.New(t), &told{}
		rt := server.Runtime(holdfast.Options{OnEvent: func(e holdfast.Event) { n.add("%v", e) }, Trace: &holdfast.Trace{
			Acquiring: func(context.Context, holdfast.Acquiring) func(holdfast.Acquired) {
				return func(holdfast.Acquired) { panic("acquired") }
			},
			Released: func(holdfast.Released) { panic("released") },
		}})
		lease, err := rt.Lock("orders").Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		synctest.Wait()
		assert.Equal(t, []string{"Options.OnEvent, Options.Trace or ElectionOptions.OnLeader panicked: acquired", "Options.OnEvent, Options.Trace or ElectionOptions.OnLeader panicked: released"}, n.take())
	})
}

func TestTrace_TellsOfRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, n := holdfasttest.New(t), &told{}
		rt := server.Runtime(holdfast.Options{Trace: &holdfast.Trace{Renewed: func(r holdfast.Renewed) {
			n.add("leases=%d gone=%d margin=%v err=%t", r.Leases, r.Gone, r.Margin.Round(time.Second), r.Err != nil)
			assert.LessOrEqual(t, r.Took, 2*time.Second, "longer than a renewal waits for its answer")
		}}})
		for i := range 3 {
			_, err := rt.Lock(fmt.Sprint("orders", i)).Acquire(t.Context())
			require.NoError(t, err)
		}
		server.Lose("orders0")
		<-time.After(11 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"leases=3 gone=1 margin=20s err=false"}, n.take())
		server.Cut(rt)
		<-time.After(10 * time.Second)
		synctest.Wait()
		lines := n.take()
		require.NotEmpty(t, lines)
		assert.Equal(t, "leases=2 gone=0 margin=20s err=true", lines[0])
		assert.GreaterOrEqual(t, rt.Stats().RenewFailures, uint64(2))
		assert.Equal(t, uint64(2), rt.Stats().Renewals)
		server.Heal(rt)
		require.NoError(t, rt.Close(t.Context()))
	})
}

func TestHeld_IsWhatIsHeld(t *testing.T) {
	traced(t, func(t *testing.T, _ *holdfasttest.Server, rt *holdfast.Runtime, _ *told) {
		assert.Empty(t, slices.Collect(rt.Held()))
		owner := rt.NewOwner()
		began := time.Now()
		order, err := rt.Lock("orders").Acquire(t.Context(), holdfast.WithOwner(owner))
		require.NoError(t, err)
		for range 2 {
			_, err := rt.RWLock("stock").Read().Acquire(t.Context())
			require.NoError(t, err)
		}
		_, err = rt.FairLock("jobs").Acquire(t.Context(), holdfast.WithLease(time.Minute))
		require.NoError(t, err)
		waiting := rt.Lock("orders").AcquireAsync(t.Context())
		synctest.Wait()
		held := slices.SortedFunc(rt.Held(), func(a, b holdfast.HeldLease) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) })
		require.Len(t, held, 4)
		assert.Equal(t, 4, rt.Stats().Held)
		for i, want := range []holdfast.HeldLease{
			{Kind: holdfast.KindFair, Name: "jobs"}, {Kind: holdfast.KindLock, Name: "orders", Owner: owner.String(), Waiting: 1},
			{Kind: holdfast.KindRead, Name: "stock"}, {Kind: holdfast.KindRead, Name: "stock"},
		} {
			got := held[i]
			assert.NotEmpty(t, got.ID)
			assert.True(t, got.Since.Equal(began), "%v", got.Since)
			assert.WithinRange(t, got.ExpiresAt, began.Add(29*time.Second), began.Add(time.Minute))
			got.ID, got.Since, got.ExpiresAt = "", time.Time{}, time.Time{}
			assert.Equal(t, want, got)
		}
		for range rt.Held() {
			break // the caller may stop the iteration early
		}
		waiting.Cancel()
		require.NoError(t, order.Release(t.Context()))
		assert.Len(t, slices.Collect(rt.Held()), 3)
	})
}

// The beginning and the end of each term are reported once, no matter how the term ends.
func TestTrace_TellsOfTerms(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, e *holdfast.Election, server *holdfasttest.Server) error{
		"returned": func(context.Context, *holdfast.Election, *holdfasttest.Server) error { return errors.New("done") },
		"resigned": func(ctx context.Context, e *holdfast.Election, _ *holdfasttest.Server) error {
			e.Resign()
			<-ctx.Done()
			return holdfast.ErrResign
		},
		"lost": func(ctx context.Context, _ *holdfast.Election, server *holdfasttest.Server) error {
			server.Lose("reports")
			<-ctx.Done()
			return holdfast.ErrResign
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, n := holdfasttest.New(t), &told{}
				rt := server.Runtime(holdfast.Options{Trace: &holdfast.Trace{Leader: func(c holdfast.LeaderChange) {
					n.add("%s leading=%t token=%d", c.Name, c.Leading, c.Token)
				}}})
				e := rt.Election("reports", holdfast.ElectionOptions{})
				_ = e.Run(t.Context(), func(ctx context.Context, term holdfast.Term) error {
					synctest.Wait()
					assert.Equal(t, []string{fmt.Sprintf("reports leading=true token=%d", term.Token)}, n.take())
					err := end(ctx, e, server)
					if ctx.Err() != nil {
						synctest.Wait()
						assert.Equal(t, []string{fmt.Sprintf("reports leading=false token=%d", term.Token)}, n.take(), "the end is reported when the term ends, not when lead returns")
						n.add("reports leading=false token=%d", term.Token)
					}
					return err
				})
				assert.Len(t, n.take(), 1)
				require.NoError(t, rt.Close(t.Context()))
			})
		})
	}
}
