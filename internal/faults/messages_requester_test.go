package faults_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

// longLease is longer than the tests wait. So a lock that becomes free during a test was released: its lease cannot have expired.
const longLease = 3 * locktest.Patience

// shortLease is for tests that wait for a renewal, which is due after a third of the lease. Even if a busy machine misses one renewal, the lease is
// kept.
const shortLease = 3 * time.Second

// renewed waits until the key's TTL grows, which only a renewal causes, and asserts that the lease is valid then.
func renewed(t *testing.T, p *locktest.Place, valid func() bool) {
	t.Helper()
	lowest := time.Duration(math.MaxInt64)
	locktest.Await(t, "a renewal", func() bool {
		left := p.Redis.PTTL(context.Background(), p.Name).Val()
		lowest = min(lowest, left)
		return left > lowest
	})
	if valid != nil {
		assert.True(t, valid())
	}
}

// crash is a message. An actor of `endings` that receives it panics.
type crash struct{}

// endings are the ways in which an actor ends.
var endings = map[string]func(t *testing.T, rt *holdfast.Runtime, lock *holdfast.Lock) (a *locktest.Actor, end func()){
	"stopped": func(t *testing.T, rt *holdfast.Runtime, lock *holdfast.Lock) (*locktest.Actor, func()) {
		a := locktest.NewActor(t, rt, lock)
		return a, a.Stop
	},
	"poisoned": func(t *testing.T, rt *holdfast.Runtime, lock *holdfast.Lock) (*locktest.Actor, func()) {
		a := locktest.NewActor(t, rt, lock)
		return a, a.Poison
	},
	"stopped by its supervisor": func(t *testing.T, rt *holdfast.Runtime, lock *holdfast.Lock) (*locktest.Actor, func()) {
		a := locktest.ActorThat(t, rt, lock, panicOnCrash, actor.WithGuardian(stopping))
		return a, func() { rt.System().Root.Send(a.PID, crash{}) }
	},
}

var stopping = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })

func panicOnCrash(c actor.Context) {
	if _, ok := c.Message().(crash); ok {
		panic("crash")
	}
}

// eachEnding runs `show` with a plain lock for every way in which a requester ends. For one of these ways, a stop, it runs `show` with every kind of
// lock.
func eachEnding(t *testing.T, show func(t *testing.T, p *locktest.Place, link *link)) {
	one := func(t *testing.T, p *locktest.Place, ending string) {
		l := newLink(t, p)
		l.requester, l.end = endings[ending](t, l.rt, p.Lock(l.rt))
		show(t, p, l)
		showFree(t, p, l)
	}
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) { one(t, p, "stopped") })
	for ending := range endings {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			one(t, locktest.OwnPlaceOf(t, "lock"), ending)
		})
	}
}

// link is a runtime behind a proxy, with a requester that the test ends.
type link struct {
	rt        *holdfast.Runtime
	proxy     *faultproxy.Proxy
	sent      locktest.CountPipelines
	requester *locktest.Actor
	end       func()
}

func newLink(t *testing.T, p *locktest.Place) *link {
	l := &link{proxy: faultproxy.New(t, p.Addr)}
	client := locktest.NewClient(t, l.proxy.Addr())
	client.AddHook(&l.sent)
	l.rt = locktest.NewRuntime(t, client, holdfast.Options{Lease: longLease})
	t.Cleanup(l.proxy.Heal)
	return l
}

// ask makes the requester ask for the lock, and returns when the runtime has sent a call to Redis.
func (l *link) ask(t *testing.T, p *locktest.Place, id uint64) {
	t.Helper()
	before := l.sent.N.Load()
	l.requester.Ask(p.AcquireMessage(id))
	locktest.Await(t, "the request to be sent", func() bool { return l.sent.N.Load() > before })
}

// showFree waits until nothing of a requester is left, and asserts that another actor gets the lock.
func showFree(t *testing.T, p *locktest.Place, l *link) {
	t.Helper()
	locktest.Await(t, "the key to go", func() bool { return !p.Exists(t) })
	other := locktest.NewActor(t, l.rt, p.Lock(l.rt))
	granted := p.Hold(t, other, 1)
	assert.Equal(t, map[string]string{granted.LeaseID: "1"}, p.Fields(t))
	other.Ask(p.ReleaseMessage(2, granted.Serial))
	require.NoError(t, locktest.Answer[*protocol.Released](t, other).Err)
	assert.False(t, p.Exists(t))
}

// eachSort runs `show` for the two sorts of lock actor. The actor of a plain lock has one contender in Redis, and the actor of a fair lock has
// several.
func eachSort(t *testing.T, show func(t *testing.T, p *locktest.Place)) {
	for _, kind := range []string{"lock", "fair lock"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			show(t, locktest.PlaceOf(t, kind))
		})
	}
}

func TestFault_RequesterEndsWhileItHolds(t *testing.T) {
	t.Parallel()
	eachEnding(t, func(t *testing.T, p *locktest.Place, l *link) {
		granted := p.Hold(t, l.requester, 1)
		require.True(t, granted.Valid())
		waiting := locktest.NewActor(t, l.rt, p.Lock(l.rt))
		waiting.Ask(p.AcquireMessage(1))
		p.WaitForWaiting(t, l.rt, 1)

		l.end()

		handed := locktest.Answer[*protocol.Granted](t, waiting)
		assert.False(t, granted.Valid(), "the lease has ended with its holder")
		waiting.Ask(p.ReleaseMessage(2, handed.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, waiting).Err)
	})
}

func TestFault_RequesterEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	eachEnding(t, func(t *testing.T, p *locktest.Place, l *link) {
		holder := locktest.NewActor(t, l.rt, p.Lock(l.rt))
		granted := p.Hold(t, holder, 1)
		bounded := p.AcquireMessage(2)
		bounded.Wait = time.Hour
		l.requester.Ask(p.AcquireMessage(1))
		l.requester.Ask(bounded)
		p.WaitForWaiting(t, l.rt, 2)

		l.end()

		locktest.Await(t, "its waits to end", func() bool {
			state, err := p.Lock(l.rt).Inspect(t.Context())
			return assert.NoError(t, err) && state.Waiting == 0
		})
		holder.Ask(p.ReleaseMessage(2, granted.Serial))
		require.NoError(t, locktest.Answer[*protocol.Released](t, holder).Err)
		assert.Empty(t, l.requester.Answers, "a requester that has ended gets no answers")
	})
}

// Redis has granted the lock, but the reply has not reached the runtime when the requester ends.
func TestFault_RequesterEndsBeforeTheReplyArrives(t *testing.T) {
	t.Parallel()
	eachEnding(t, func(t *testing.T, p *locktest.Place, l *link) {
		warmUp(t, p, l)
		l.proxy.SwallowReplies(true)
		l.requester.Ask(p.AcquireMessage(1))
		locktest.Await(t, "the grant in Redis", func() bool { return p.Exists(t) })

		l.end()

		l.proxy.SwallowReplies(false) // cuts the connections that have lost a reply
	})
}

// The request reaches Redis late, when its requester has ended.
func TestFault_RequesterEndsBeforeTheRequestArrives(t *testing.T) {
	t.Parallel()
	eachEnding(t, func(t *testing.T, p *locktest.Place, l *link) {
		warmUp(t, p, l)
		l.proxy.Blackhole(true)
		before := p.Server.CommandStats(t, "evalsha")["evalsha"]
		l.ask(t, p, 1)

		l.end()
		l.proxy.Blackhole(false)

		locktest.Await(t, "the acquire to be undone", func() bool {
			return p.Server.CommandStats(t, "evalsha")["evalsha"] >= before+2
		})
	})
}

func TestFault_RequesterEndsWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	eachEnding(t, func(t *testing.T, p *locktest.Place, l *link) {
		p.Hold(t, l.requester, 1)
		p.Server.Pause()
		l.ask(t, p.Another(t), 2)

		l.end()

		p.Server.Resume()
		locktest.Await(t, "both locks to become free", func() bool { return len(p.Keys(t)) == 0 })
	})
}

// warmUp uses the link, so that scripts are loaded and connections open.
func warmUp(t *testing.T, p *locktest.Place, l *link) {
	t.Helper()
	locktest.Release(t, locktest.Acquire(t, p.Lock(l.rt)))
}

// When a requester has ended, the key of its lock is gone at the end of the lease at the latest, no matter what keeps the runtime from releasing
// the lock.
func TestFault_RequesterEndsBehindABlackhole(t *testing.T) {
	t.Parallel()
	eachSort(t, func(t *testing.T, p *locktest.Place) {
		const lease = time.Second
		rt, proxy := p.Proxied(t, holdfast.Options{Lease: lease})
		requester := locktest.NewActor(t, rt, p.Lock(rt))
		p.Hold(t, requester, 1)
		proxy.Blackhole(true)
		left, err := p.Redis.PTTL(t.Context(), p.Name).Result()
		require.NoError(t, err)
		assert.LessOrEqual(t, left, lease)
		requester.Stop()
		locktest.Await(t, "the key to expire", func() bool { return !p.Exists(t) })
		proxy.Heal()
		locktest.Release(t, locktest.Acquire(t, p.Lock(rt)))
		assert.False(t, p.Exists(t))
	})
}

// protoactor notifies nobody of the end of an actor that panics while it stops. The next renewal finds that the actor is gone.
func TestFault_RequesterPanicsWhileItStops(t *testing.T) {
	t.Parallel()
	eachSort(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{Lease: shortLease})
		requester := locktest.ActorThat(t, rt, p.Lock(rt), func(c actor.Context) {
			if _, ok := c.Message().(*actor.Stopped); ok {
				panic("while it stops")
			}
		})
		granted := p.Hold(t, requester, 1)
		rt.System().Root.Stop(requester.PID)
		locktest.Await(t, "the key to go", func() bool { return !p.Exists(t) })
		assert.False(t, granted.Valid())
	})
}

// A stopped actor's name may be reused before the runtime learns that the actor has ended. Even so, the runtime serves the new actor of that name.
func TestFault_RequesterWhoseNameIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{Lease: longLease})
		root, name := rt.System().Root, "clerk-"+p.Name
		stopped, goOn := make(chan struct{}), make(chan struct{})
		first := make(chan any, 10)
		pid, err := root.SpawnNamed(actor.PropsFromFunc(func(c actor.Context) {
			switch m := c.Message().(type) {
			case *actor.Started:
				c.Request(p.Lock(rt).PID(), p.AcquireMessage(1))
			case *actor.Stopped: // its name is free, and its watchers are not notified yet
				close(stopped)
				<-goOn
			case *protocol.Granted:
				first <- m
			}
		}), name)
		require.NoError(t, err)
		locktest.Next[*protocol.Granted](t, first)
		root.Stop(pid)
		locktest.Closed(t, "the end", stopped)
		second := make(chan any, 10)
		pid, err = root.SpawnNamed(actor.PropsFromFunc(func(c actor.Context) { second <- c.Message() }), name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = root.StopFuture(pid).Wait() })
		locktest.Next[*actor.Started](t, second)
		ask := func() { root.RequestWithCustomSender(p.Lock(rt).PID(), p.AcquireMessage(1), pid) }
		ask()
		p.WaitForWaiting(t, rt, 1)

		close(goOn)

		told := []any{locktest.Next[any](t, second), locktest.Next[any](t, second)}
		slices.SortFunc(told, func(a, b any) int { return strings.Compare(fmt.Sprintf("%T", a), fmt.Sprintf("%T", b)) })
		assert.IsType(t, &protocol.Lost{}, told[0], "the first one's lease: the lock cannot tell them apart")
		require.IsType(t, &protocol.Refused{}, told[1])
		require.ErrorIs(t, told[1].(*protocol.Refused).Err, holdfast.ErrNotAcquired)
		ask()
		granted := locktest.Next[*protocol.Granted](t, second)
		root.RequestWithCustomSender(p.Lock(rt).PID(), p.ReleaseMessage(2, granted.Serial), pid)
		require.NoError(t, locktest.Next[*protocol.Released](t, second).Err)
		assert.False(t, p.Exists(t))
	})
}
