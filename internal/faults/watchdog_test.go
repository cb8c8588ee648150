package faults_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

const dogLease = 3 * time.Second

// A hold ends by release, by cancel, by loss or by Close, at any instant. After that, its lease is not renewed.
func TestFault_WatchdogEndsWithItsHold(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			first := rand.Uint64()
			for i := range locktest.Scaled(1000, 10) / len(locktest.Kinds) {
				seed := first + uint64(i)
				ok := t.Run("", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { showKennel(t, kind, seed) })
				})
				require.True(t, ok, "seed %d", seed)
			}
		})
	}
}

// kennel is a world with two runtimes and a few locks, in a bubble of testing/synctest.
type kennel struct {
	kind     locktest.Kind
	renewal  string // the SHA of the script that renews locks of this kind
	bubble   locktest.Bubble
	random   *rand.Rand // used only before the bubble's time advances
	names    []string
	runtimes [2]*holdfast.Runtime
	links    [2]locktest.Pipes

	mu       sync.Mutex
	ends     map[string]time.Time   // by grant: when its last hold ended
	fixed    map[string]bool        // whether a grant is not renewed
	renewals map[string][]time.Time // of each grant
	scripts  int                    // that the server ran
}

// renewalOf returns the SHA of the script that renews leases of a kind.
func renewalOf(k locktest.Kind) string {
	kind, _ := scripts.KindOf(protocol.Kind(k.Name))
	return kind.Renew(&scripts.Site{}, []string{""}, []string{""}, dogLease).Script.SHA
}

func showKennel(t *testing.T, kind locktest.Kind, seed uint64) {
	k := &kennel{
		kind: kind, bubble: locktest.NewBubble(t), random: rand.New(rand.NewPCG(seed, 0)), names: []string{"orders", "invoices"},
		ends: map[string]time.Time{}, fixed: map[string]bool{}, renewals: map[string][]time.Time{},
	}
	k.renewal = renewalOf(kind)
	pipe, err := k.bubble.Dial() // makes the server begin to serve
	require.NoError(t, err)
	require.NoError(t, pipe.Close())
	k.bubble.Server().SetPreHook(k.noteScript)
	for i := range k.runtimes {
		k.runtimes[i] = k.bubble.Runtime(t, &k.links[i], holdfast.Options{Lease: dogLease})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(4+k.random.IntN(6))*time.Second)
	defer cancel()
	var users sync.WaitGroup
	for i := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(i+1)))
		users.Go(func() { k.use(ctx, random, k.runtimes[i%2]) })
	}
	users.Go(func() { k.disturb(ctx, rand.New(rand.NewPCG(seed, 100))) })
	if k.random.IntN(2) == 0 {
		<-time.After(k.upTo(k.random, 10*time.Second))
		if err := k.runtimes[1].Close(t.Context()); !locktest.GaveUp(err) { // the link may be cut
			assert.NoError(t, err)
		}
	}
	users.Wait()
	k.checkEnd(t)
}

func (k *kennel) upTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}

// use acquires locks, and ends its waits and holds, in various ways.
func (k *kennel) use(ctx context.Context, random *rand.Rand, rt *holdfast.Runtime) {
	for ctx.Err() == nil {
		lock := k.kind.Lock(rt, k.names[random.IntN(len(k.names))])
		var lease *holdfast.Lease
		var err error
		fixed := false
		waiting, cancel := context.WithTimeout(ctx, k.upTo(random, 2*dogLease))
		switch random.IntN(5) {
		case 0:
			lease, err = lock.TryAcquire(ctx)
		case 1:
			fixed = true
			lease, err = lock.Acquire(waiting, holdfast.WithLease(dogLease/2))
		case 2:
			pending := lock.AcquireAsync(ctx)
			<-time.After(k.upTo(random, dogLease))
			pending.Cancel()
			lease, err = pending.Lease()
		default:
			lease, err = lock.Acquire(waiting)
		}
		if err == nil {
			k.hold(ctx, random, lease, fixed)
		}
		cancel()
		<-time.After(k.upTo(random, 500*time.Millisecond))
	}
}

// hold keeps a lease for some time, unless the lease ends earlier, and records when the hold ended.
func (k *kennel) hold(ctx context.Context, random *rand.Rand, lease *holdfast.Lease, fixed bool) {
	k.mu.Lock()
	k.fixed[lease.ID()] = fixed
	k.mu.Unlock()
	select {
	case <-lease.Done():
	case <-time.After(k.upTo(random, 2*dogLease)):
	}
	releasing, cancel := context.WithTimeout(ctx, k.upTo(random, time.Second))
	_ = lease.Release(releasing) // it may be lost, or the link may be down
	cancel()
	k.mu.Lock()
	k.ends[lease.ID()] = time.Now()
	k.mu.Unlock()
}

// disturb deletes keys, frees locks, cuts links.
func (k *kennel) disturb(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		<-time.After(k.upTo(random, 2*time.Second))
		name, i := k.names[random.IntN(len(k.names))], random.IntN(2)
		switch random.IntN(4) {
		case 0:
			k.bubble.Del(name)
		case 1:
			_, _ = k.kind.Lock(k.runtimes[0], name).ForceRelease(ctx)
		default:
			k.links[i].Cut()
			<-time.After(k.upTo(random, dogLease*3/2))
			k.links[i].Heal()
		}
	}
}

// noteScript records the scripts and renewals that the server gets.
func (k *kennel) noteScript(_ *server.Peer, command string, args ...string) (done bool) {
	if !strings.EqualFold(command, "evalsha") {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.scripts++
	if args[0] == k.renewal {
		for _, grant := range args[1:] {
			k.renewals[grant] = append(k.renewals[grant], time.Now())
		}
	}
	return false
}

// checkEnd checks that no grant was renewed after its end, except by a call that was waiting to be sent; that no fixed lease was renewed at all; and
// that the server receives no more scripts.
func (k *kennel) checkEnd(t *testing.T) {
	<-time.After(2 * dogLease)
	for _, name := range k.names {
		assert.False(t, k.bubble.Exists(name), "the key is gone")
	}
	k.mu.Lock()
	before := k.scripts
	k.mu.Unlock()
	<-time.After(time.Hour)
	k.mu.Lock()
	defer k.mu.Unlock()
	assert.Equal(t, before, k.scripts, "the server receives no more scripts")
	for grant, end := range k.ends {
		times := k.renewals[grant]
		if k.fixed[grant] {
			assert.Empty(t, times, "a fixed lease is not renewed")
		} else if len(times) > 0 {
			// Calls that waited in the gateway may still be sent. They have no effect, because the grant is gone.
			assert.LessOrEqual(t, slices.MaxFunc(times, time.Time.Compare).Sub(end), dogLease/3, "%s was renewed after its end", grant)
		}
	}
}

// hungRenewals is a hook of a client in which renewals hang.
type hungRenewals struct {
	renewal string
	hang    chan struct{}
	count   atomic.Int64
}

func (h *hungRenewals) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h *hungRenewals) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *hungRenewals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if slices.ContainsFunc(commands, func(c redis.Cmder) bool { return slices.Contains(c.Args(), any(h.renewal)) }) {
			h.count.Add(1)
			<-h.hang
		}
		return next(ctx, commands)
	}
}

// A renewal that never returns does not move the lease's deadline: the loss is reported at the old deadline, within a millisecond.
func TestFault_RenewalThatNeverReturns(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const lease = 30 * time.Second
				bubble, hook := locktest.NewBubble(t), &hungRenewals{renewal: renewalOf(kind), hang: make(chan struct{})}
				rt := bubble.Runtime(t, &locktest.Pipes{}, holdfast.Options{Lease: lease}, hook)
				defer close(hook.hang)
				start := time.Now()
				held := locktest.Acquire(t, kind.Lock(rt, "orders"))
				deadline := held.ExpiresAt()
				<-time.After(lease / 2)
				assert.Positive(t, hook.count.Load(), "a renewal is in flight")
				assert.Equal(t, deadline, held.ExpiresAt())
				assert.True(t, held.Valid())

				<-held.Done()
				assert.InDelta(t, 0, time.Since(deadline).Seconds(), 0.001, "Done is closed at the deadline")
				assert.InDelta(t, (lease - lease/100 - 2*time.Millisecond).Seconds(), time.Since(start).Seconds(), 0.01)
				assert.False(t, held.Valid())
				assert.ErrorIs(t, held.Err(), holdfast.ErrLeaseLost)
				assert.Less(t, hook.count.Load(), int64(10), "the number of hanging calls is bounded")
			})
		})
	}
}

// If a hook of the client hangs, Close still returns, and its error reports the hanging call.
func TestFault_CloseDoesNotWaitForAHookThatHangs(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	kind := locktest.Kinds[0]
	client, hook := locktest.NewClient(t, redistest.Shared(t).Addr()), &hungRenewals{renewal: renewalOf(kind), hang: make(chan struct{})}
	client.AddHook(hook)
	defer close(hook.hang)
	rt, err := holdfast.New(client, holdfast.Options{Lease: lease, Logger: locktest.Quiet()})
	require.NoError(t, err)
	locktest.Acquire(t, kind.Lock(rt, redistest.Name(t)))
	locktest.Await(t, "a renewal to be in flight", func() bool { return hook.count.Load() > 0 })
	began := time.Now()
	require.ErrorContains(t, rt.Close(t.Context()), "a call to Redis has not returned")
	assert.Less(t, time.Since(began), 10*time.Second+locktest.Slack())
}
