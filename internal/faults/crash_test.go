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

// keepings are the ways in which Redis persists writes. With everysec, the server usually writes a command to the file before it answers the command.
// But if an earlier sync to the disk is still running, the server may answer first. So not only a power failure may lose writes: killing the server
// process may lose them, too.
var keepings = map[string]struct {
	args  []string
	keeps bool
}{
	"nothing":  {nil, false},
	"everysec": {[]string{"--appendonly", "yes", "--appendfsync", "everysec"}, false},
	"always":   {[]string{"--appendonly", "yes", "--appendfsync", "always"}, true},
}

// A server crashes again and again, with and without keeping its data. Tokens increase in any case. If the server keeps its grants, no two leases
// are valid at once. If it loses grants, two leases may be valid at once, as documented. The test counts how often that happens.
func TestFault_ServerCrashes(t *testing.T) {
	t.Parallel()
	for how, keeping := range keepings {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for _, kind := range locktest.Kinds[:locktest.Scaled(len(locktest.Kinds), 2)] { // the second kind has tokens
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
	t.Logf("%d holders over %d crashes; two leases were valid at once %d times", holders, crashes, overlaps)
	locktest.Await(t, "nothing to be left", func() bool { return len(p.Keys(t)) == 0 })
}

// crashAgainAndAgain kills and restarts a server at random instants for the given time.
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

// tokenSeen is a token, with the times at which it was requested and received.
type tokenSeen struct {
	call, got time.Time
	token     int64
}

// use holds the lock again and again, mostly for a moment, sometimes longer than a crash takes.
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
		_ = lease.Release(ctx) // the lease may have been lost
	}
}

// disorder returns the first pair of tokens in the wrong order: the second was requested after the first had been received, but is not larger.
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

// A server that keeps its grants crashes and restarts. Leases that have not expired meanwhile continue, and still exclude others.
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

// A server that restarts without data grants a held lock again at once, which cannot be prevented. The old holder learns of the loss within a third
// of its lease, and none of its later calls affects the next holder.
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
	t.Logf("both the first and the next holder's leases are valid: %t", leases[0].Valid())
	assert.LessOrEqual(t, last().Sub(restarted), 2*crashLease()/3+stalls.Slack())
	for i, p := range places {
		assert.ErrorIs(t, leases[i].Release(t.Context()), holdfast.ErrLeaseLost)
		assert.Equal(t, map[string]string{next[i].ID(): "1"}, p.Fields(t))
		require.True(t, next[i].Valid())
		assert.GreaterOrEqual(t, next[i].Token(), leases[i].Token())
		locktest.Release(t, next[i])
	}
}
