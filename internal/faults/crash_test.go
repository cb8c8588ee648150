package faults_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func crashLease() time.Duration { return locktest.Unhurried(900 * time.Millisecond) }

// keepings are the ways in which a Redis persists writes. With everysec it answers before it has written anything while it waits for the
// disk, so that a process that is killed may lose what a machine that stops would lose.
var keepings = map[string]struct {
	args  []string
	keeps bool
}{
	"nothing":  {nil, false},
	"everysec": {[]string{"--appendonly", "yes", "--appendfsync", "everysec"}, false},
	"always":   {[]string{"--appendonly", "yes", "--appendfsync", "always"}, true},
}

// A server crashes again and again, with and without what it had. Tokens increase in any case. If it keeps what it granted, no two
// leases are valid at once; else how often two were is counted, and documented as not promised.
func TestFault_ServerCrashes(t *testing.T) {
	t.Parallel()
	for how, keeping := range keepings {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for _, kind := range locktest.Kinds[:locktest.Scaled(len(locktest.Kinds), 2)] { // the second has tokens
				t.Run(kind.Name, func(t *testing.T) {
					t.Parallel()
					showCrashes(t, locktest.OwnPlace(t, kind, keeping.args...), keeping.keeps)
				})
			}
		})
	}
}

func showCrashes(t *testing.T, p *locktest.Place, keeps bool) {
	wrecks := []*wreck{{Place: p.Another(t)}, {Place: p.Another(t)}, {Place: p.Another(t)}, {Place: p.Another(t)}}
	ctx, cancel := context.WithCancel(t.Context())
	var users sync.WaitGroup
	for range 3 {
		rt := p.Runtime(t, holdfast.Options{Lease: crashLease()})
		for _, w := range wrecks {
			for range 2 {
				users.Go(func() { w.use(ctx, rt) })
			}
		}
	}
	crashes := crashAgainAndAgain(p.Server, time.Duration(locktest.Scaled(30, 4))*time.Second)
	cancel()
	users.Wait()
	holders, overlaps := 0, 0
	for _, w := range wrecks {
		found := w.spans.Overlaps()
		if keeps {
			assert.Empty(t, found)
		}
		assert.Empty(t, w.disorder(), "tokens")
		assert.Positive(t, w.spans.Len())
		holders, overlaps = holders+w.spans.Len(), overlaps+len(found)
	}
	t.Logf("%d holders over %d crashes; %d times two were valid at once", holders, crashes, overlaps)
	locktest.Await(t, "nothing to be left", func() bool { return len(p.Keys(t)) == 0 })
}

// crashAgainAndAgain kills a server at random and starts it again, for that long.
func crashAgainAndAgain(server *redistest.Server, d time.Duration) (crashes int) {
	for end := time.Now().Add(d); time.Now().Before(end); crashes++ {
		<-time.After(rand.N(2 * crashLease()))
		server.Kill()
		<-time.After(rand.N(crashLease() / 2))
		server.Restart()
	}
	return crashes
}

// wreck is a lock on a server that crashes.
type wreck struct {
	*locktest.Place
	spans locktest.Spans

	mu     sync.Mutex
	tokens []tokenSeen
}

// tokenSeen is a token and when it was asked for and got.
type tokenSeen struct {
	call, got time.Time
	token     int64
}

// use holds the lock again and again, mostly for a moment, sometimes over crashes.
func (w *wreck) use(ctx context.Context, rt *holdfast.Runtime) {
	for ctx.Err() == nil {
		call := time.Now()
		lease, err := w.Lock(rt).Acquire(ctx, holdfast.WithWait(4*crashLease()))
		if err != nil {
			continue
		}
		seen := tokenSeen{call, time.Now(), lease.Token()}
		w.mu.Lock()
		w.tokens = append(w.tokens, seen)
		w.mu.Unlock()
		length := rand.N(10 * time.Millisecond)
		if rand.IntN(5) == 0 {
			length = rand.N(2 * crashLease())
		}
		w.spans.Hold(lease, length)
		_ = lease.Release(ctx) // it may have been lost
	}
}

// disorder tells of a token that is not larger than one that somebody had got before it was asked for.
func (w *wreck) disorder() [][2]tokenSeen {
	if !w.Kind.Fenced {
		return nil
	}
	for _, a := range w.tokens {
		for _, b := range w.tokens {
			if a.got.Before(b.call) && a.token >= b.token {
				return [][2]tokenSeen{{a, b}}
			}
		}
	}
	return nil
}

// A server that keeps what it granted crashes and comes back: leases that are not over meanwhile go on, and exclude.
func TestFault_LeasesOutliveACrash(t *testing.T) {
	t.Parallel()
	places := locktest.OnOneServer(t, keepings["always"].args...)
	rt, other := places[0].Runtime(t, holdfast.Options{Lease: 6 * time.Second}), places[0].Runtime(t, holdfast.Options{})
	var renewed, fixed []*holdfast.Lease
	for _, p := range places {
		renewed = append(renewed, locktest.Acquire(t, p.Lock(rt)))
		fixed = append(fixed, locktest.Acquire(t, p.Another(t).Lock(rt), holdfast.WithLease(time.Hour)))
	}
	places[0].Server.Kill()
	places[0].Server.Restart()
	for i, p := range places {
		locktest.Await(t, "an answer", func() bool {
			_, err := p.Lock(other).TryAcquire(t.Context())
			assert.Error(t, err, p.Kind.Name)
			return errors.Is(err, holdfast.ErrNotAcquired)
		})
		awaitRenewal(t, renewed[i])
		assert.True(t, fixed[i].Valid())
		locktest.Release(t, renewed[i])
		locktest.Release(t, fixed[i])
	}
}

// A server that comes back empty gives a held lock to the next one at once, which cannot be prevented. The old holder learns of it within
// a third of its lease; nothing that it does later touches the next one.
func TestFault_RestartWithoutData(t *testing.T) {
	t.Parallel()
	places := locktest.OnOneServer(t)
	stalls := locktest.WatchStalls(t, &locktest.Place{Addr: redistest.Shared(t).Addr()})
	rt, other := places[0].Runtime(t, holdfast.Options{Lease: 2 * crashLease()}), places[0].Runtime(t, holdfast.Options{})
	var leases []*holdfast.Lease
	for _, p := range places {
		leases = append(leases, locktest.Acquire(t, p.Lock(rt)))
	}
	last := lastTold(t, leases)
	places[0].Server.Restart()
	restarted := time.Now()
	stalls.Take()
	var next []*holdfast.Lease
	for _, p := range places {
		next = append(next, locktest.Acquire(t, p.Lock(other)))
	}
	t.Logf("the first holder's lease is valid beside the next one's: %t", leases[0].Valid())
	assert.LessOrEqual(t, last().Sub(restarted), 2*crashLease()/3+stalls.Slack())
	for i, p := range places {
		assert.ErrorIs(t, leases[i].Release(t.Context()), holdfast.ErrLeaseLost)
		assert.Equal(t, map[string]string{next[i].ID(): "1"}, p.Fields(t))
		require.True(t, next[i].Valid())
		assert.GreaterOrEqual(t, next[i].Token(), leases[i].Token())
		locktest.Release(t, next[i])
	}
}
