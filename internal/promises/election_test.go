package promises_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// parliament is the candidates of one election, and the tokens of the terms that they have had.
type parliament struct {
	t          *testing.T
	candidates []*candidate
	begun      chan *mandate

	mu     sync.Mutex
	tokens []int64
}

// candidate is a process that runs for the leadership.
type candidate struct {
	*holdfast.Election
	rt    *holdfast.Runtime
	value string
	ran   chan error // what Run has returned
	told  chan holdfast.Leader
	stop  context.CancelFunc
}

// mandate is a term. The test receives it from the channel `begun` and decides how it ends.
type mandate struct {
	*candidate
	holdfast.Term
	ctx context.Context
	end chan error // a value sent here ends the term: the candidate's function returns the value to Run
}

// newParliament makes an election with one candidate for each runtime. The election is over when the test ends.
func newParliament(t *testing.T, name string, o holdfast.ElectionOptions, runtimes ...*holdfast.Runtime) *parliament {
	p := &parliament{t: t, begun: make(chan *mandate)}
	for i, rt := range runtimes {
		c := &candidate{rt: rt, value: "candidate " + strconv.Itoa(i), ran: make(chan error, 1), told: make(chan holdfast.Leader, 100)}
		o.Value, o.OnLeader = c.value, func(l holdfast.Leader) { c.told <- l }
		c.Election = rt.Election(name, o)
		p.candidates = append(p.candidates, c)
	}
	return p
}

// campaign lets all candidates run.
func (p *parliament) campaign() {
	for _, c := range p.candidates {
		p.run(c)
	}
}

func (p *parliament) run(c *candidate) {
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	p.t.Cleanup(stop)
	go func() {
		c.ran <- c.Run(ctx, func(ctx context.Context, term holdfast.Term) error { return p.lead(c, ctx, term) })
	}()
}

func (p *parliament) lead(c *candidate, ctx context.Context, term holdfast.Term) error {
	p.mu.Lock()
	for _, other := range p.candidates {
		if other != c {
			assert.False(p.t, other.IsLeader(), "%s leads although %s does", c.value, other.value)
		}
	}
	if n := len(p.tokens); n > 0 {
		assert.Greater(p.t, term.Token, p.tokens[n-1], "tokens grow")
	}
	p.tokens = append(p.tokens, term.Token)
	p.mu.Unlock()
	m := &mandate{candidate: c, Term: term, ctx: ctx, end: make(chan error)}
	select {
	case p.begun <- m:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-m.end:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// elected returns the next term, once all running candidates have been notified of it.
func (p *parliament) elected(running ...*candidate) *mandate {
	p.t.Helper()
	var m *mandate
	select {
	case m = <-p.begun:
	case <-time.After(locktest.Patience):
		require.Fail(p.t, "nobody is elected")
	}
	for _, c := range running {
		p.awaitTold(c, m)
	}
	return m
}

// awaitTold returns when OnLeader has notified a candidate of the leader.
func (p *parliament) awaitTold(c *candidate, m *mandate) {
	p.t.Helper()
	for late := time.After(locktest.Patience); ; {
		select {
		case l := <-c.told:
			if l.Token == m.Token {
				assert.Equal(p.t, []string{m.value, m.rt.ID()}, []string{l.Value, l.Runtime})
				return
			}
			assert.Less(p.t, l.Token, m.Token)
		case <-late:
			require.Fail(p.t, c.value+" is not notified of "+m.value)
		}
	}
}

// returned waits for a candidate's Run to return, and returns its error.
func (p *parliament) returned(c *candidate) error {
	p.t.Helper()
	select {
	case err := <-c.ran:
		assert.False(p.t, c.IsLeader())
		return err
	case <-time.After(locktest.Patience):
		require.Fail(p.t, "Run does not return")
		return nil
	}
}

func TestElection_LeadersFollowEachOther(t *testing.T) {
	t.Parallel()
	locktest.OnSetups(t, func(t *testing.T, place *locktest.Place) {
		rt := func() *holdfast.Runtime { return place.Runtime(t, holdfast.Options{Lease: 8 * time.Second}) }
		p := newParliament(t, place.Name, holdfast.ElectionOptions{}, rt(), rt(), rt())
		observer := rt().Election(place.Name, holdfast.ElectionOptions{})
		_, err := observer.Leader(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrNoLeader)
		assert.ErrorContains(t, err, place.Name)
		p.campaign()

		first := p.elected(p.candidates...)
		leader, err := observer.Leader(t.Context())
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now(), leader.Since, time.Minute)
		assert.Equal(t, holdfast.Leader{Value: first.value, Runtime: first.rt.ID(), Token: first.Token, Since: leader.Since}, leader)
		assert.True(t, first.IsLeader())
		assert.Same(t, first.Lease, holdfast.LeaseFromContext(first.ctx))
		assert.Equal(t, first.Token, first.Lease.Token())
		first.end <- nil

		second := p.elected(p.candidates...)
		assert.ErrorIs(t, first.ctx.Err(), context.Canceled, "lead has returned")
		second.Resign()
		locktest.Closed(t, "the term", second.ctx.Done())
		assert.ErrorIs(t, context.Cause(second.ctx), holdfast.ErrResign)

		third := p.elected(p.candidates...)
		assert.NotSame(t, second.candidate, third.candidate, "others go first")
		third.end <- errors.Join(holdfast.ErrResign)
		assert.NoError(t, p.returned(third.candidate))

		left := p.without(third.candidate)
		fourth := p.elected(left...)
		failed := errors.New("lead failed")
		fourth.end <- failed
		assert.ErrorIs(t, p.returned(fourth.candidate), failed)

		left = p.without(third.candidate, fourth.candidate)
		fifth := p.elected(left...)
		fifth.stop()
		assert.NoError(t, p.returned(fifth.candidate))
		_, err = observer.Leader(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrNoLeader)
	})
}

// without returns all candidates except the given ones.
func (p *parliament) without(some ...*candidate) []*candidate {
	return slices.DeleteFunc(slices.Clone(p.candidates), func(c *candidate) bool { return slices.Contains(some, c) })
}

// Watch yields the present leader and then each later leader, in order. It can miss a leader that is replaced before Watch reads it from Redis.
func TestElection_WatchersSeeEveryLeader(t *testing.T) {
	t.Parallel()
	locktest.OnSetups(t, func(t *testing.T, place *locktest.Place) {
		rt := func() *holdfast.Runtime { return place.Runtime(t, holdfast.Options{}) }
		p := newParliament(t, place.Name, holdfast.ElectionOptions{}, rt(), rt())
		p.campaign()
		current := p.elected()
		seen := make(chan int64)
		ctx, stop := context.WithCancel(t.Context())
		var watchers sync.WaitGroup
		for range 3 {
			watcher := rt().Election(place.Name, holdfast.ElectionOptions{})
			watchers.Go(func() {
				for l := range watcher.Watch(ctx) {
					seen <- l.Token
				}
			})
		}
		for range 5 {
			for range 3 {
				select {
				case token := <-seen:
					require.Equal(t, current.Token, token)
				case <-time.After(locktest.Patience):
					require.Fail(t, "a watcher does not see the leader")
				}
			}
			current.end <- nil
			current = p.elected()
		}
		stop()
		go func() { watchers.Wait(); close(seen) }()
		for range seen { // the watchers may still send leaders
		}
		for range rt().Election(place.Name, holdfast.ElectionOptions{}).Watch(t.Context()) {
			break // this also ends the watch
		}
	})
}

func TestElection_Invalid(t *testing.T) {
	t.Parallel()
	rt := locktest.Somewhere(t).Runtime(t, holdfast.Options{})
	never := func(context.Context, holdfast.Term) error { assert.Fail(t, "called"); return nil }
	for _, e := range []*holdfast.Election{
		rt.Election("", holdfast.ElectionOptions{}), rt.Election("a{b", holdfast.ElectionOptions{}),
		rt.Election("a", holdfast.ElectionOptions{Lease: -1}), rt.Election("a", holdfast.ElectionOptions{Lease: time.Millisecond}),
		rt.Election("a", holdfast.ElectionOptions{Lease: 25 * time.Hour}),
	} {
		assert.ErrorIs(t, e.Run(t.Context(), never), holdfast.ErrInvalid)
		_, err := e.Leader(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		for range e.Watch(t.Context()) {
			assert.Fail(t, "a leader")
		}
		e.Resign()
		assert.False(t, e.IsLeader())
	}
	assert.ErrorIs(t, rt.Election("a", holdfast.ElectionOptions{}).Run(t.Context(), nil), holdfast.ErrInvalid)
}

// Run returns an error if the client is for a single server of a cluster and the election's keys are on another master. Such a client can never
// reach the keys.
func TestElection_OnAnotherMasterOfACluster(t *testing.T) {
	t.Parallel()
	cluster, name := redistest.SharedCluster(t), redistest.Name(t)
	owner := cluster.Owner(name).Addr()
	other := cluster.Masters[slices.IndexFunc(cluster.Masters, func(s *redistest.Server) bool { return s.Addr() != owner })]
	rt := locktest.NewRuntime(t, locktest.ClientWith(t, other.Options()), holdfast.Options{Lease: 3 * time.Second})
	err := rt.Election(name, holdfast.ElectionOptions{}).Run(t.Context(), func(context.Context, holdfast.Term) error {
		assert.Fail(t, "it leads")
		return nil
	})
	assert.ErrorContains(t, err, "MOVED")
	assert.ErrorContains(t, err, "part of a cluster")
}

func TestElection_RunsOnce(t *testing.T) {
	t.Parallel()
	place := locktest.Somewhere(t)
	p := newParliament(t, place.Name, holdfast.ElectionOptions{}, place.Runtime(t, holdfast.Options{}))
	p.campaign()
	m := p.elected()
	assert.ErrorIs(t, m.Run(t.Context(), func(context.Context, holdfast.Term) error { return nil }), holdfast.ErrInvalid)
	m.stop()
	require.NoError(t, p.returned(m.candidate))
	p.run(m.candidate)
	again := p.elected()
	assert.Equal(t, m.candidate, again.candidate, "a candidate may run again after its Run has returned")
}

// A candidate must wait to lead even if the owner in the candidate's context holds the lock. Each handle is a separate candidate, even in one
// runtime.
func TestElection_OwnerInTheContextDoesNotLead(t *testing.T) {
	t.Parallel()
	place := locktest.Somewhere(t)
	rt := place.Runtime(t, holdfast.Options{})
	err := rt.FencedLock(place.Name).Do(t.Context(), func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		ran := make(chan error, 1)
		go func() {
			ran <- rt.Election(place.Name, holdfast.ElectionOptions{}).Run(ctx, func(context.Context, holdfast.Term) error {
				assert.Fail(t, "it leads")
				return nil
			})
		}()
		locktest.Await(t, "the candidate", func() bool {
			state, err := rt.FencedLock(place.Name).Inspect(t.Context())
			return err == nil && state.Waiting == 1
		})
		cancel()
		return <-ran
	})
	assert.NoError(t, err)
}

func TestElection_PanicGivesTheLeadershipUp(t *testing.T) {
	t.Parallel()
	place := locktest.Somewhere(t)
	e := place.Runtime(t, holdfast.Options{}).Election(place.Name, holdfast.ElectionOptions{OnLeader: func(holdfast.Leader) {}})
	assert.PanicsWithValue(t, "oops", func() {
		_ = e.Run(t.Context(), func(context.Context, holdfast.Term) error { panic("oops") })
	})
	assert.False(t, e.IsLeader())
	assert.False(t, place.Exists(t))
	led := make(chan struct{})
	go func() { // Goexit also gives the leadership up
		defer close(led)
		_ = e.Run(t.Context(), func(context.Context, holdfast.Term) error { runtime.Goexit(); return nil })
	}()
	locktest.Closed(t, "the goroutine", led)
	assert.False(t, place.Exists(t))
	assert.NoError(t, e.Run(t.Context(), func(context.Context, holdfast.Term) error { return holdfast.ErrResign }))
}

// A candidate keeps the leadership until the function that it passed to Run returns, no matter how long ago that function's context ended.
func TestElection_LeadReturnsBeforeAnotherLeads(t *testing.T) {
	t.Parallel()
	place := locktest.Somewhere(t)
	e := place.Runtime(t, holdfast.Options{}).Election(place.Name, holdfast.ElectionOptions{})
	other := place.Runtime(t, holdfast.Options{}).FencedLock(place.Name)
	for _, end := range []func(stop context.CancelFunc){func(stop context.CancelFunc) { stop() }, func(context.CancelFunc) { e.Resign() }} {
		ctx, stop := context.WithCancel(t.Context())
		err := e.Run(ctx, func(ctx context.Context, term holdfast.Term) error {
			end(stop)
			<-ctx.Done()
			assert.False(t, e.IsLeader())
			assert.True(t, term.Lease.Valid())
			_, err := other.TryAcquire(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
			return holdfast.ErrResign
		})
		assert.NoError(t, err)
		stop()
	}
}

func TestElection_CloseEndsIt(t *testing.T) {
	t.Parallel()
	locktest.OnSetups(t, func(t *testing.T, place *locktest.Place) {
		client := place.Client(t)
		require.NoError(t, client.Ping(t.Context()).Err()) // so that the client's own goroutines are not counted
		left := locktest.GoroutinesLeft(t, func() {
			rt, err := holdfast.New(client, holdfast.Options{PubSub: place.PubSub})
			require.NoError(t, err)
			p := newParliament(t, place.Name, holdfast.ElectionOptions{}, rt, rt)
			p.campaign()
			m := p.elected(p.candidates...)
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				for range rt.Election(place.Name, holdfast.ElectionOptions{}).Watch(context.Background()) {
				}
			}()
			require.NoError(t, rt.Close(t.Context()))
			locktest.Closed(t, "the term", m.ctx.Done())
			assert.ErrorIs(t, context.Cause(m.ctx), holdfast.ErrClosed)
			for _, c := range p.candidates {
				assert.ErrorIs(t, p.returned(c), holdfast.ErrClosed)
			}
			locktest.Closed(t, "Watch", watched)
			_, err = m.Leader(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrClosed)
			assert.ErrorIs(t, m.Run(t.Context(), func(context.Context, holdfast.Term) error { return nil }), holdfast.ErrClosed)
		})
		assert.Equal(t, 1, left, "goroutines")
		assert.False(t, place.Exists(t))
	})
}

// Watch and Run of a closed runtime send no messages in the user's actor system, because the actors that would receive the messages have stopped.
func TestElection_NoDeadLettersAfterClose(t *testing.T) {
	t.Parallel()
	place := locktest.Somewhere(t)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return locktest.Quiet() }),
		actor.WithDeadLetterThrottleInterval(time.Millisecond), // a goroutine of the throttle lives this long, and must end before goleak looks
	)
	defer system.Shutdown()
	rt := place.Runtime(t, holdfast.Options{System: system})
	require.NoError(t, rt.Close(t.Context()))
	system.EventStream.Subscribe(func(event any) {
		if dead, is := event.(*actor.DeadLetterEvent); is {
			t.Errorf("a dead letter: %#v", dead.Message)
		}
	})
	e := rt.Election(place.Name, holdfast.ElectionOptions{OnLeader: func(holdfast.Leader) {}})
	assert.ErrorIs(t, e.Run(t.Context(), func(context.Context, holdfast.Term) error { return nil }), holdfast.ErrClosed)
	for range e.Watch(t.Context()) {
		assert.Fail(t, "a leader")
	}
}
