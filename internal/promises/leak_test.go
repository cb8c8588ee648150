package promises_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// unusedLease is the length of the leases of locks that a test leaves behind.
func unusedLease() time.Duration { return locktest.Unhurried(time.Second) }

func TestPromise_UnusedLockDisappears(t *testing.T) {
	t.Parallel()
	leaveBehind := map[string]func(t *testing.T, p *locktest.Place){
		"process killed":                killedHolder,
		"link gone for good":            cutOffHolder,
		"waiter cancelled":              cancelledWaiter,
		"pending cancelled":             cancelledPending,
		"granted pending cancelled":     cancelledGrant,
		"context of a pending ended":    endedPending,
		"reply of the acquire lost":     lostGrant,
		"acquire arrives late":          lateAcquire,
		"reply of the acquire is late":  lateGrant,
		"fixed lease, never released":   forgottenLease,
		"holder of a pass has given up": cancelledPass,
	}
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		for how, leave := range leaveBehind {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				p := p.Another(t)
				stalls := locktest.WatchStalls(t, p)
				leave(t, p)
				start := time.Now()
				seen := start // when the key was last seen; it may appear late, because an acquire that was given up may still be executed
				locktest.Await(t, "the key to be gone for good", func() bool {
					if p.Exists(t) {
						seen = time.Now()
					}
					return time.Since(seen) > unusedLease()/2
				})
				assert.LessOrEqual(t, seen.Sub(start), unusedLease()+stalls.Slack())
			})
		}
	})
}

// holdUntilKilled runs in a process of its own. It acquires the lock LOCK at the server ADDR, prints whether that succeeded, and keeps the lock.
func holdUntilKilled() {
	client := redis.NewClient(&redis.Options{
		Addr: os.Getenv("ADDR"), MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	rt, err := holdfast.New(client, holdfast.Options{Lease: unusedLease()})
	if err == nil {
		var lease *holdfast.Lease
		lease, err = locktest.Kinds[0].Lock(rt, os.Getenv("LOCK")).Acquire(context.Background())
		defer runtime.KeepAlive(lease)
	}
	fmt.Println("held:", err == nil)
	bufio.NewScanner(os.Stdin).Scan() // until the parent is gone
}

func killedHolder(t *testing.T, p *locktest.Place) {
	child := childproc.Run(t, "holder", "ADDR="+p.Addr, "LOCK="+p.Name)
	require.Equal(t, "held: true", child.Line())
	locktest.Stays(t, "the child renews", unusedLease()*3/2, func() bool { return p.Exists(t) })
	child.Kill()
}

func cutOffHolder(t *testing.T, p *locktest.Place) {
	rt, proxy := p.Proxied(t, holdfast.Options{Lease: unusedLease()})
	locktest.Acquire(t, p.Lock(rt))
	proxy.Blackhole(true)
	proxy.Cut()
}

func cancelledWaiter(t *testing.T, p *locktest.Place) {
	holder, waiter := p.Runtime(t, holdfast.Options{Lease: unusedLease()}), p.Runtime(t, holdfast.Options{Lease: unusedLease()})
	lease := locktest.Acquire(t, p.Lock(holder))
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := p.Lock(waiter).Acquire(ctx)
		answer <- err
	}()
	p.WaitForWaiter(t, waiter)
	cancel()
	assert.ErrorIs(t, <-answer, context.Canceled)
	locktest.Release(t, lease)
}

func cancelledPending(t *testing.T, p *locktest.Place) {
	holder, waiter := p.Runtime(t, holdfast.Options{Lease: unusedLease()}), p.Runtime(t, holdfast.Options{Lease: unusedLease()})
	lease := locktest.Acquire(t, p.Lock(holder))
	pending := p.Lock(waiter).AcquireAsync(t.Context())
	p.WaitForWaiter(t, waiter)
	pending.Cancel()
	_, err := pending.Lease()
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
	locktest.Release(t, lease)
}

func cancelledGrant(t *testing.T, p *locktest.Place) {
	pending := p.Lock(p.Runtime(t, holdfast.Options{Lease: unusedLease()})).AcquireAsync(t.Context())
	locktest.Closed(t, "the grant", pending.Done())
	assert.True(t, p.Exists(t))
	pending.Cancel()
	_, err := pending.Lease()
	assert.ErrorIs(t, err, context.Canceled)
}

// endedPending ends the context at many different moments of an acquire: either the caller gets the lease, or nobody does.
func endedPending(t *testing.T, p *locktest.Place) {
	lock := p.Lock(p.Runtime(t, holdfast.Options{Lease: unusedLease()}))
	for i := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		lease, err := lock.AcquireAsync(ctx).Lease()
		if err == nil {
			assert.NoError(t, lease.Release(t.Context()))
		} else {
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
		cancel()
	}
}

func lostGrant(t *testing.T, p *locktest.Place) {
	rt, proxy := p.Proxied(t, holdfast.Options{Lease: unusedLease()})
	proxy.DropReplies(1000, faultproxy.Containing(p.Name))
	ctx, cancel := context.WithCancel(t.Context())
	pending := p.Lock(rt).AcquireAsync(ctx)
	locktest.Await(t, "a lost reply", func() bool { return proxy.Dropped() > 1 }) // the first lost reply may be a NOSCRIPT
	cancel()
	_, err := pending.Lease()
	assert.ErrorIs(t, err, context.Canceled)
	proxy.Heal()
}

func lateAcquire(t *testing.T, p *locktest.Place) {
	rt, proxy := p.Proxied(t, holdfast.Options{Lease: unusedLease()})
	locktest.Release(t, locktest.Acquire(t, p.Another(t).Lock(rt))) // opens the connection
	proxy.Blackhole(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := p.Lock(rt).Acquire(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.False(t, p.Exists(t))
	proxy.Blackhole(false)
	start := time.Now() // Redis may still execute the acquire until a third of its lease has passed
	locktest.Await(t, "the end of its window", func() bool { return time.Since(start) > unusedLease()/3 })
}

// lateGrant gets the reply to its acquire after the lease has ended.
func lateGrant(t *testing.T, p *locktest.Place) {
	rt, proxy := p.Proxied(t, holdfast.Options{Lease: unusedLease()})
	locktest.Release(t, locktest.Acquire(t, p.Another(t).Lock(rt)))
	proxy.Delay(faultproxy.ToClient, 100*time.Millisecond)
	lease, err := p.Lock(rt).Acquire(t.Context(), holdfast.WithLease(60*time.Millisecond), holdfast.WithWait(300*time.Millisecond))
	if !assert.ErrorIs(t, err, holdfast.ErrNotAcquired) {
		assert.False(t, lease.Valid())
	}
	proxy.Heal()
}

func forgottenLease(t *testing.T, p *locktest.Place) {
	locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})), holdfast.WithLease(unusedLease()))
}

// cancelledPass releases the lock while the waiter that would get it is being cancelled.
func cancelledPass(t *testing.T, p *locktest.Place) {
	rt := p.Runtime(t, holdfast.Options{Lease: unusedLease(), Handoff: holdfast.Handoff{For: unusedLease() / 3}})
	for i := range 50 {
		lease := locktest.Acquire(t, p.Lock(rt))
		ctx, cancel := context.WithCancel(t.Context())
		pending := p.Lock(rt).AcquireAsync(ctx, holdfast.WithLease(unusedLease()))
		if i%2 == 0 {
			cancel()
			locktest.Release(t, lease)
		} else {
			go cancel()
			locktest.Release(t, lease)
		}
		if lease, err := pending.Lease(); err == nil {
			assert.NoError(t, lease.Release(t.Context()))
		}
		cancel()
	}
}

func TestPromise_LostReplyCountsOnce(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		t.Run("acquire", func(t *testing.T) { lostReply(t, p, loseAcquire) })
		t.Run("acquire with a fixed lease", func(t *testing.T) { lostReply(t, p, loseAcquire, holdfast.WithLease(time.Minute)) })
		t.Run("release", func(t *testing.T) { lostReply(t, p, loseRelease) })
		t.Run("pass", func(t *testing.T) { lostReply(t, p, losePass) })
		t.Run("renew", func(t *testing.T) { lostReply(t, p, loseRenewal) })
		t.Run("extend", func(t *testing.T) { lostReply(t, p, loseExtend, holdfast.WithLease(time.Minute)) })
		t.Run("acquire, given up", func(t *testing.T) { lostReply(t, p, loseAbandoned) })
		t.Run("force-release", func(t *testing.T) { lostReply(t, p, loseForceRelease) })
	})
}

// lossy is a lock with two handles. `lock` belongs to a runtime whose proxy loses replies about this lock. `other` belongs to a runtime with a good
// link.
type lossy struct {
	*locktest.Place
	proxy   *faultproxy.Proxy
	lock    *holdfast.Lock
	other   *holdfast.Lock
	options []holdfast.AcquireOption
}

func lostReply(t *testing.T, p *locktest.Place, show func(t *testing.T, l *lossy), options ...holdfast.AcquireOption) {
	p = p.Another(t)
	rt, proxy := p.Proxied(t, holdfast.Options{Lease: unusedLease(), Handoff: holdfast.Handoff{For: unusedLease() / 3}})
	other := p.Runtime(t, holdfast.Options{})
	require.NoError(t, other.Check(t.Context())) // loads all scripts, so the reply that will be lost is not a NOSCRIPT error
	l := &lossy{Place: p, proxy: proxy, lock: p.Lock(rt), other: p.Lock(other), options: options}
	show(t, l)
	assert.Positive(t, proxy.Dropped(), "a reply was lost")
	locktest.Release(t, locktest.Acquire(t, l.other))
}

func (l *lossy) loseNext() { l.proxy.DropReplies(1, faultproxy.Containing(l.Name)) }

// assertHeld asserts that the lease is the lock's only holder, with one hold, and that its release frees the lock.
func (l *lossy) assertHeld(t *testing.T, lease *holdfast.Lease) {
	t.Helper()
	assert.True(t, lease.Valid())
	assert.Equal(t, map[string]string{lease.ID(): "1"}, l.Fields(t))
	assert.NoError(t, lease.Release(t.Context()))
	assert.False(t, l.Exists(t))
}

func loseAcquire(t *testing.T, l *lossy) {
	l.loseNext()
	l.assertHeld(t, locktest.Acquire(t, l.lock, l.options...))
}

// loseAbandoned gives up an acquire that Redis has granted. The orphaned grant is released long before its lease is over.
func loseAbandoned(t *testing.T, l *lossy) {
	l.proxy.DropReplies(1000, faultproxy.Containing(l.Name))
	ctx, cancel := context.WithCancel(t.Context())
	pending := l.lock.AcquireAsync(ctx, holdfast.WithLease(time.Hour))
	locktest.Await(t, "the grant", func() bool { return l.Exists(t) })
	cancel()
	_, err := pending.Lease()
	assert.ErrorIs(t, err, context.Canceled)
	l.proxy.Heal()
	locktest.Await(t, "the orphan's end", func() bool { return !l.Exists(t) })
}

func loseRelease(t *testing.T, l *lossy) {
	lease := locktest.Acquire(t, l.lock)
	l.loseNext()
	assert.NoError(t, lease.Release(t.Context()), "no false loss")
	assert.False(t, l.Exists(t))
	assert.ErrorIs(t, lease.Err(), holdfast.ErrNotHeld)
}

func losePass(t *testing.T, l *lossy) {
	locktest.Release(t, locktest.Acquire(t, l.lock)) // the first grant of a fenced lock has only one token, so that grant would not be passed on
	first := locktest.Acquire(t, l.lock)
	pending := l.lock.AcquireAsync(t.Context(), holdfast.WithLease(time.Minute))
	locktest.Await(t, "the waiter", func() bool {
		state, err := l.lock.Inspect(t.Context())
		return err == nil && state.Waiting == 1
	})
	told := l.Server.CommandStats(t, "publish")
	l.loseNext()
	assert.NoError(t, first.Release(t.Context()))
	second, err := pending.Lease()
	require.NoError(t, err)
	if locktest.Slack() == 0 { // with -short or the race detector, the turn may be over before the release
		assert.Equal(t, told, l.Server.CommandStats(t, "publish"), "it was passed, not released")
	}
	assert.NotEqual(t, first.ID(), second.ID())
	l.assertHeld(t, second)
}

func loseRenewal(t *testing.T, l *lossy) {
	lease := locktest.Acquire(t, l.lock)
	l.loseNext()
	locktest.Stays(t, "the lease is valid", 2*unusedLease(), lease.Valid)
	l.assertHeld(t, lease)
}

func loseExtend(t *testing.T, l *lossy) {
	lease := locktest.Acquire(t, l.lock, l.options...)
	l.loseNext()
	assert.NoError(t, lease.Extend(t.Context(), time.Hour))
	assert.InDelta(t, time.Hour.Seconds(), l.Redis.PTTL(t.Context(), l.Name).Val().Seconds(), 5)
	l.assertHeld(t, lease)
}

// loseForceRelease loses the reply to a forced release. The runtime does not repeat the call, since a repeat could hit the next holder.
func loseForceRelease(t *testing.T, l *lossy) {
	lease := locktest.Acquire(t, l.other)
	l.loseNext()
	locktest.Await(t, "a lost reply", func() bool { // on a busy machine the call may not even be sent in time
		_, err := l.lock.ForceRelease(t.Context())
		return assert.Error(t, err, "the outcome of the force-release is unknown") && l.proxy.Dropped() > 0
	})
	assert.False(t, l.Exists(t))
	assert.ErrorIs(t, lease.Release(t.Context()), holdfast.ErrLeaseLost)
}
