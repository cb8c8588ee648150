package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// worldLease is the lease of the world's users. A third of this lease, the time between two renewals, is longer than the usual stalls of a busy
// machine.
const worldLease = 1500 * time.Millisecond

// world is a server, with runtimes whose users contend for locks on it.
type world struct {
	t       *testing.T
	trouble serverTrouble
	server  *redistest.Server
	clock   *redistest.Clock
	redis   *redis.Client // not through a proxy
	proxies []*faultproxy.Proxy
	rts     []*holdfast.Runtime
	events  locktest.Recorder
	locks   []*worldLock
	stalls  *locktest.Stalls
	worst   time.Duration // the longest stall
	outages []outage      // when the server was down

	healed chan struct{} // closed when the trouble is over

	mu      sync.Mutex
	longest time.Duration // the longest wait after the trouble
}

// worldLock is one lock of the world. It records who held the lock, and the states of the lock that the observer saw in Redis.
type worldLock struct {
	*locktest.Place

	mu      sync.Mutex
	tenures []tenure
	largest int64 // the largest token that the resource has seen
	refused []tenure
	looks   []look
}

// tenure is one lease as its holder saw it.
type tenure struct {
	id         string
	token      int64
	asked, got time.Time
	valid      time.Time // the last instant at which the lease was seen valid, or zero if it never was
	fixed      bool
}

func newWorld(t *testing.T, trouble serverTrouble) *world {
	w := &world{t: t, trouble: trouble, healed: make(chan struct{})}
	if trouble.clocked {
		w.server, w.clock = redistest.StartWithClock(t, trouble.args...)
		w.clock.Set(trouble.ahead)
	} else {
		w.server = redistest.Start(t, trouble.args...)
	}
	w.redis = w.server.Client(t)
	w.stalls = locktest.WatchStalls(t, &locktest.Place{Addr: redistest.Shared(t).Addr()})
	for _, p := range locktest.OnServer(t, w.server) {
		w.locks = append(w.locks, &worldLock{Place: p})
	}
	for _, linger := range []time.Duration{0, 0, worldLease / 8} {
		rt, proxy := w.locks[0].Proxied(t, holdfast.Options{Lease: worldLease, Linger: linger, OnEvent: w.events.Record})
		w.rts, w.proxies = append(w.rts, rt), append(w.proxies, proxy)
	}
	return w
}

// run makes trouble for the given time, and then waits until every user has been granted the lock once more (A6).
func (w *world) run(d time.Duration) {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	observing, stop := context.WithCancel(w.t.Context())
	var users, observer sync.WaitGroup
	observer.Go(func() { w.observe(observing) })
	for _, rt := range w.rts {
		for _, l := range w.locks {
			for range 2 {
				users.Go(func() { w.use(ctx, l, rt) })
			}
		}
	}
	w.trouble.make(ctx, w)
	<-ctx.Done()
	if w.trouble.heal != nil {
		w.trouble.heal(w)
	}
	close(w.healed)
	users.Wait()
	stop()
	observer.Wait()
	w.worst = w.stalls.Take()
}

// use takes a lock again and again, and once more when the trouble is over.
func (w *world) use(ctx context.Context, l *worldLock, rt *holdfast.Runtime) {
	for ctx.Err() == nil {
		var options []holdfast.AcquireOption
		fixed := rand.IntN(5) == 0
		if fixed {
			options = append(options, holdfast.WithLease(worldLease))
		}
		asked := time.Now()
		lease, err := l.Lock(rt).Acquire(ctx, append(options, holdfast.WithWait(2*worldLease))...)
		if err == nil {
			l.hold(ctx, lease, tenure{id: lease.ID(), token: lease.Token(), asked: asked, got: time.Now(), fixed: fixed})
		}
		<-time.After(rand.N(5 * time.Millisecond))
	}
	<-w.healed
	w.useOnceMore(ctx, l, rt)
}

// useOnceMore asserts that a user is granted the lock in time (A6). It repeats calls that fail, because the trouble may still affect the first ones.
func (w *world) useOnceMore(short context.Context, l *worldLock, rt *holdfast.Runtime) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
	defer cancel()
	lease, err := l.Lock(rt).Acquire(ctx)
	for err != nil && ctx.Err() == nil {
		lease, err = l.Lock(rt).Acquire(ctx)
	}
	if !assert.NoError(w.t, err, "A6: %s", l.Kind.Name) {
		return
	}
	w.mu.Lock()
	w.longest = max(w.longest, time.Since(asked))
	w.mu.Unlock()
	l.hold(short, lease, tenure{id: lease.ID(), token: lease.Token(), asked: asked, got: time.Now()})
}

// hold keeps a lease for a moment, or sometimes for up to twice the length of the lease, and then releases it. Until then hold writes to the resource
// and checks the lease, again and again.
func (l *worldLock) hold(ctx context.Context, lease *holdfast.Lease, seen tenure) {
	length := rand.N(10 * time.Millisecond)
	if rand.IntN(20) == 0 {
		length = rand.N(2 * worldLease)
	}
	looks := time.NewTicker(time.Millisecond)
	defer looks.Stop()
	for end := time.Now().Add(length); ; <-looks.C {
		now := time.Now() // taken before the check, so a lease that passes the check was valid at this instant
		wrote := l.write(seen.token)
		if !lease.Valid() {
			break
		}
		if seen.valid = now; !wrote {
			l.refuse(seen)
		}
		if now.After(end) || ctx.Err() != nil {
			break
		}
	}
	l.mu.Lock()
	l.tenures = append(l.tenures, seen)
	l.mu.Unlock()
	_ = lease.Release(context.Background()) // the lease may have been lost
}

// write writes to the resource, which refuses a token smaller than one it has seen.
func (l *worldLock) write(token int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token < l.largest {
		return false
	}
	l.largest = token
	return true
}

func (l *worldLock) refuse(seen tenure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.refused); n == 0 || l.refused[n-1].id != seen.id {
		l.refused = append(l.refused, seen)
	}
}

func (l *worldLock) overlaps() []string {
	var spans locktest.Spans
	for _, one := range l.tenures {
		if one.valid.After(one.got) {
			spans.Add(one.id, one.got, one.valid)
		}
	}
	return spans.Overlaps()
}

// smallerTokens returns the pairs of holders whose tokens contradict A1. In such a pair, the two tokens are equal, or the second holder got a smaller
// token although it asked for the lock only after the first had got its token.
//
// If the server forgets a grant, the runtime that has this grant may hand it on to more holders until the runtime learns of the loss. These holders
// get tokens that were reserved for the grant. So if forgets is true, smallerTokens uses the time at which the first holder of the grant asked.
func (l *worldLock) smallerTokens(forgets bool) (wrong [][2]tenure) {
	asked := map[string]time.Time{} // by id of the grant: when its first holder asked
	for _, one := range l.tenures {
		if first, ok := asked[one.id]; !ok || one.asked.Before(first) {
			asked[one.id] = one.asked
		}
	}
	for i, a := range l.tenures {
		for j, b := range l.tenures {
			request := b.asked
			if forgets {
				request = asked[b.id]
			}
			if i != j && a.token != 0 && (a.got.Before(request) && a.token > b.token || a.token == b.token) {
				wrong = append(wrong, [2]tenure{a, b})
			}
		}
	}
	return wrong
}

func (w *world) panics() []holdfast.ActorPanicked {
	return locktest.Recorded[holdfast.ActorPanicked](&w.events)
}
