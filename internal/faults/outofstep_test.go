package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// Replies break off, are missing, or arrive twice. Then connections are out of step, and calls get the replies to other calls. No such reply grants,
// frees or takes away a lock. No such reply leaves an orphan either: a grant that has no holder, but blocks others until it expires.
func TestFault_RepliesOutOfStep(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		const locks, runtimes, goroutines = 8, 2, 16
		rooms := make([]*room, locks)
		for i := range rooms {
			rooms[i] = &room{place: p.Another(t)}
		}
		var left atomic.Int64
		left.Store(int64(tries(p, 20_000, 500)))
		var visitors sync.WaitGroup
		var links []*outOfStep
		for range runtimes {
			link := newOutOfStep(t, p)
			links = append(links, link)
			confused := func() bool { return link.Repeated() > 2 && link.Dropped() > 2 }
			for range goroutines {
				visitors.Go(func() {
					for (left.Add(-1) >= 0 || !confused()) && rooms[rand.IntN(locks)].visit(t, link.rt) {
						link.served.Add(1)
					}
				})
			}
		}
		confuse(links, &visitors)

		for _, link := range links {
			t.Logf("%d replies arrived twice, %d not or only in part", link.Repeated(), link.Dropped())
			assert.Positive(t, link.Repeated())
			assert.Positive(t, link.Dropped())
		}
		for _, room := range rooms {
			assert.Zero(t, room.crowds.Load(), "two holders at a time")
			locktest.Await(t, "the key to be gone", func() bool { return !room.place.Exists(t) })
		}
	})
}

// outOfStep is a link on which replies get out of step, and the runtime behind it.
type outOfStep struct {
	*faultproxy.Proxy
	rt     *holdfast.Runtime
	served atomic.Int64 // how often a visitor was served
}

// newOutOfStep returns a link whose client waits only briefly for a missing reply, but long enough for a busy machine to reply.
func newOutOfStep(t *testing.T, p *locktest.Place) *outOfStep {
	proxy := faultproxy.New(t, p.Addr)
	client := locktest.ClientWith(t, &redis.Options{Addr: proxy.Addr(), ReadTimeout: 100*time.Millisecond + locktest.Slack()})
	rt := locktest.NewRuntime(t, client, holdfast.Options{})
	t.Cleanup(proxy.Heal)
	return &outOfStep{Proxy: proxy, rt: rt}
}

// room is a lock, with counts of its visitors.
type room struct {
	place  *locktest.Place
	inside atomic.Int32
	crowds atomic.Int32
}

// visit holds the lock once. The lease is much longer than a visit, so it is not lost.
func (r *room) visit(t *testing.T, rt *holdfast.Runtime) bool {
	ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
	defer cancel()
	lease, err := r.place.Lock(rt).Acquire(ctx)
	return assert.NoError(t, err) && r.enter(t, lease)
}

// enter checks that nobody else holds the lock, and releases it.
func (r *room) enter(t *testing.T, lease *holdfast.Lease) bool {
	if r.inside.Add(1) > 1 {
		r.crowds.Add(1)
	}
	valid := lease.Valid()
	r.inside.Add(-1)
	return assert.True(t, valid) && assert.NoError(t, lease.Release(context.Background()))
}

// confuse puts connections out of step until the visitors have gone. A link gets its next fault only after a visitor on it was served. If faults
// followed faster, a runtime on a busy machine might get no right reply for so long that it refuses its waiters.
func confuse(links []*outOfStep, visitors *sync.WaitGroup) {
	gone := make(chan struct{})
	go func() { visitors.Wait(); close(gone) }()
	seen := make([]int64, len(links))
	for {
		i := rand.IntN(len(links))
		link := links[i]
		due := link.served.Load() > seen[i]
		if due {
			link.confuse()
		}
		select {
		case <-gone:
			return
		case <-time.After(rand.N(20 * time.Millisecond)):
		}
		if due {
			link.Forget() // cancels a fault that has hit no request yet, so that it does not hit the first request after a pause
			seen[i] = link.served.Load()
		}
	}
}

// confuse makes one reply break off, be missing, or arrive twice.
func (link *outOfStep) confuse() {
	switch rand.IntN(5) {
	case 0:
		link.BreakReplies(1)
	case 1:
		link.SkipReplies(1)
	default:
		link.RepeatReplies(1)
	}
}
