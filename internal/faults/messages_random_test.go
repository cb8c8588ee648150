package faults_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/protocol"
)

// Actors ask for locks, use and lose them, and die, while the network and the server fail in various ways. Every request is answered once, every
// lease ends once, no two leases are valid at the same time, and nothing is left.
func TestFault_EveryMessageIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		s := newStorm(t, p)
		t.Cleanup(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("%+v, %d actors alive, errors %q", s.count, len(s.sailors), s.errors)
		})
		s.rage(t, time.Duration(locktest.Scaled(15, 3))*time.Second)
		s.settle(t)
		s.assertAnswered(t)
	})
}

const stormLease = 500 * time.Millisecond

// storm is all that takes part in the test.
type storm struct {
	place   *locktest.Place
	locks   []*locktest.Place
	rts     []*holdfast.Runtime
	proxies []*faultproxy.Proxy
	ended   chan struct{}
	helpers sync.WaitGroup

	mu      sync.Mutex
	sailors map[*sailor]bool       // alive
	valid   map[string]func() bool // by lock: Valid of its last holder
	errors  []string
	count   struct{ requests, leases, lost, died int }
}

func newStorm(t *testing.T, p *locktest.Place) *storm {
	s := &storm{place: p, ended: make(chan struct{}), sailors: map[*sailor]bool{}, valid: map[string]func() bool{}}
	for range 3 {
		s.locks = append(s.locks, p.Another(t))
		rt, proxy := p.Proxied(t, holdfast.Options{Lease: stormLease})
		s.rts, s.proxies = append(s.rts, rt), append(s.proxies, proxy)
	}
	return s
}

func (s *storm) rage(t *testing.T, d time.Duration) {
	for range 12 {
		s.launch(s.rts[rand.IntN(len(s.rts))])
	}
	s.helpers.Go(s.disturbLinks)
	s.helpers.Go(func() { s.disturbServer() })
	start := time.Now()
	locktest.Await(t, "enough to have happened", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return time.Since(start) > d && s.count.requests > 100 && s.count.lost > 0 && s.count.died > 0
	})
	close(s.ended)
	s.helpers.Wait()
}

func (s *storm) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// disturbLinks injects network faults into the links.
func (s *storm) disturbLinks() {
	for !s.over() {
		proxy := s.proxies[rand.IntN(len(s.proxies))]
		switch rand.IntN(5) {
		case 0:
			proxy.Cut()
		case 1:
			proxy.DropReplies(1 + rand.IntN(5))
		case 2:
			proxy.SwallowReplies(true)
		case 3:
			proxy.Blackhole(true)
		case 4:
			proxy.Refuse(true)
			proxy.Cut()
		}
		<-time.After(time.Duration(rand.Int64N(int64(2 * stormLease))))
		proxy.Heal()
	}
}

// disturbServer flushes scripts, kills connections, and deletes the key of one lock, whose holders may therefore overlap.
func (s *storm) disturbServer() {
	ctx := context.Background()
	for n := 0; !s.over(); n++ {
		s.place.Redis.ScriptFlush(ctx)
		s.place.Redis.Do(ctx, "client", "kill", "type", []string{"normal", "pubsub"}[n%2], "skipme", "yes")
		if n%5 == 4 {
			s.place.Redis.Del(ctx, s.locks[0].Name)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (s *storm) failf(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors = append(s.errors, text)
}

// settle waits until all sailors have ended and all locks are free.
func (s *storm) settle(t *testing.T) {
	for _, proxy := range s.proxies {
		proxy.Heal()
	}
	locktest.Await(t, "all actors to end", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sailors) == 0
	})
	for _, lock := range s.locks {
		locktest.Await(t, "the key to go", func() bool { return !lock.Exists(t) })
	}
}

func (s *storm) assertAnswered(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.errors)
}

// sailor is an actor that asks for one lock after another.
type sailor struct {
	storm  *storm
	rt     *holdfast.Runtime
	ids    uint64
	open   map[uint64]any    // unanswered requests
	leases map[uint64]string // serial -> "" while held, then how it ended
	dies   bool
	leaves bool // the sailor asks for nothing more
}

type (
	goOn    struct{}
	letGo   struct{ granted *protocol.Granted }
	prolong struct{ granted *protocol.Granted }
)

func (s *storm) launch(rt *holdfast.Runtime) {
	a := &sailor{storm: s, rt: rt, open: map[uint64]any{}, leases: map[uint64]string{}}
	s.mu.Lock()
	s.sailors[a] = true
	s.mu.Unlock()
	rt.System().Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return a }))
}

// Receive is the life of a sailor.
func (a *sailor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started, goOn:
		a.next(c)
	case *protocol.Granted:
		a.onGranted(c, m)
	case letGo:
		a.ask(c, func(id uint64) any {
			return &protocol.Release{ID: id, Kind: m.granted.Kind, Lock: m.granted.Lock, Serial: m.granted.Serial}
		})
	case prolong:
		a.ask(c, func(id uint64) any {
			return &protocol.Renew{ID: id, Kind: m.granted.Kind, Lock: m.granted.Lock, Serial: m.granted.Serial, Lease: stormLease}
		})
	case *protocol.Refused:
		a.answered(m.ID, errors.Is(m.Err, holdfast.ErrNotAcquired) || !errors.Is(m.Err, holdfast.ErrInvalid))
		a.later(c, time.Millisecond, goOn{})
	case *protocol.Released:
		a.answered(m.ID, true)
		a.onReleased(m)
		a.later(c, time.Millisecond, goOn{})
	case *protocol.Renewed:
		a.answered(m.ID, true)
	case *protocol.Inspected:
		a.answered(m.ID, true)
		a.later(c, time.Millisecond, goOn{})
	case *protocol.Lost:
		a.end(m.Serial, "lost")
	case *actor.Stopped:
		a.leave()
	}
}

// next does the sailor's next action, unless the storm is over.
func (a *sailor) next(c actor.Context) {
	switch {
	case a.storm.over() && len(a.open) > 0:
		a.later(c, time.Millisecond, goOn{}) // a renewal may be answered after the release
	case a.storm.over():
		a.leaves = true
		c.Poison(c.Self())
	case rand.IntN(40) == 0:
		a.die(c)
	case rand.IntN(10) == 0:
		lock := a.pick()
		a.ask(c, func(id uint64) any {
			return &protocol.Inspect{ID: id, Kind: protocol.Kind(lock.Kind.Name), Lock: lock.Name}
		})
	default:
		a.acquire(c)
	}
}

func (a *sailor) pick() *locktest.Place { return a.storm.locks[rand.IntN(len(a.storm.locks))] }

// acquire asks for a lock in one of several ways. Sometimes the sailor then cancels the request, and sometimes it dies.
func (a *sailor) acquire(c actor.Context) {
	m := a.pick().AcquireMessage(0)
	switch rand.IntN(4) {
	case 0:
		m.Try = true
	case 1:
		m.Wait = time.Duration(1+rand.IntN(200)) * time.Millisecond
	case 2:
		m.Lease = stormLease
	}
	a.ask(c, func(id uint64) any { m.ID = id; return m })
	switch rand.IntN(10) {
	case 0:
		c.Request(a.home(), &protocol.Cancel{ID: m.ID, Kind: m.Kind, Lock: m.Lock})
	case 1:
		if rand.IntN(5) == 0 {
			a.die(c)
		}
	}
}

// home is the PID to which all requests go: any lock's PID serves any lock.
func (a *sailor) home() *actor.PID { return a.storm.locks[0].Lock(a.rt).PID() }

func (a *sailor) ask(c actor.Context, message func(id uint64) any) {
	if a.leaves {
		return
	}
	a.ids++
	m := message(a.ids)
	a.open[a.ids] = m
	a.storm.mu.Lock()
	a.storm.count.requests++
	a.storm.mu.Unlock()
	c.Request(a.home(), m)
}

// die stops the sailor without a release or a cancel; its leases and requests must still end.
func (a *sailor) die(c actor.Context) {
	a.dies = true
	c.Stop(c.Self())
}

func (a *sailor) later(c actor.Context, d time.Duration, message any) {
	root, self := a.rt.System().Root, c.Self()
	time.AfterFunc(time.Duration(rand.Int64N(int64(d)+1)), func() { root.Send(self, message) })
}
