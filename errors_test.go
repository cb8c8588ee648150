package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// If an acquire fails because this runtime or another one holds the lock, the error is a *BusyError, no matter how the wait ended.
func TestErrNotAcquired_TellsWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, lock *holdfast.Lock, wait time.Duration) (err, cause error){
		"try": func(t *testing.T, lock *holdfast.Lock, _ time.Duration) (err, cause error) {
			_, err = lock.TryAcquire(t.Context())
			return err, nil
		},
		"wait elapsed": func(t *testing.T, lock *holdfast.Lock, wait time.Duration) (err, cause error) {
			_, err = lock.Acquire(t.Context(), holdfast.WithWait(wait))
			return err, nil
		},
		"wait elapsed, async": func(t *testing.T, lock *holdfast.Lock, wait time.Duration) (err, cause error) {
			_, err = lock.AcquireAsync(t.Context(), holdfast.WithWait(wait)).Lease()
			return err, nil
		},
		"deadline": func(t *testing.T, lock *holdfast.Lock, wait time.Duration) (err, cause error) {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			_, err = lock.Acquire(ctx)
			return err, context.DeadlineExceeded
		},
		"cancelled": func(t *testing.T, lock *holdfast.Lock, wait time.Duration) (err, cause error) {
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(wait, cancel).Stop()
			_, err = lock.Acquire(ctx)
			return err, context.Canceled
		},
	}
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		lease := locktest.Acquire(t, p.Lock(rt))
		for way, try := range ways {
			for who, lock := range map[string]*holdfast.Lock{"same runtime": p.Lock(rt), "another": p.Lock(other)} {
				t.Run(way+", "+who, func(t *testing.T) {
					var busy *holdfast.BusyError
					asked := way != "cancelled" || who == "same runtime"                     // a cancelled acquire does not ask Redis for the holder
					for wait := 30 * time.Millisecond; wait < locktest.Patience; wait *= 4 { // on a busy machine, learning the holder may take longer
						err, cause := try(t, lock, wait)
						assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
						assert.ErrorContains(t, err, p.Name)
						if cause != nil {
							assert.ErrorIs(t, err, cause)
						}
						if errors.As(err, &busy) && busy.TTL > 0 && (busy.Holder != "" || !asked) {
							break
						}
					}
					require.NotNil(t, busy)
					assert.Equal(t, p.Name, busy.Name)
					if asked {
						assert.Equal(t, lease.ID(), busy.Holder)
					}
					assert.Equal(t, who == "same runtime", busy.Local)
					assert.Greater(t, busy.TTL, time.Second)
					assert.LessOrEqual(t, busy.TTL, 30*time.Second)
				})
			}
		}
		locktest.Release(t, lease)
	})
}

// BusyError.Local is true if this runtime holds the lock that is in the way, even a lock of another kind or the other half of a
// read/write lock.
func TestBusyError_LocalWhateverTheKind(t *testing.T) {
	t.Parallel()
	locktest.OnServers(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		name := "" // a new name for each case: an attempt that was given up may hold the lock for a moment
		book := func(rt *holdfast.Runtime) *holdfast.RWLock { return rt.RWLock(name) }
		permits := rt.PermitSemaphore(p.Name + "-permits")
		require.NoError(t, permits.SetPermits(t.Context(), 1))
		type acquire = func(rt *holdfast.Runtime, try bool, wait time.Duration) (*holdfast.Lease, error)
		by := func(lock func(rt *holdfast.Runtime) *holdfast.Lock) acquire {
			return func(rt *holdfast.Runtime, try bool, wait time.Duration) (*holdfast.Lease, error) {
				if try {
					return lock(rt).TryAcquire(t.Context())
				}
				return lock(rt).Acquire(t.Context(), holdfast.WithWait(wait))
			}
		}
		reader := by(func(rt *holdfast.Runtime) *holdfast.Lock { return book(rt).Read() })
		writer := by(func(rt *holdfast.Runtime) *holdfast.Lock { return book(rt).Write() })
		permit := func(rt *holdfast.Runtime, try bool, wait time.Duration) (*holdfast.Lease, error) {
			if try {
				return rt.PermitSemaphore(permits.Name()).TryAcquire(t.Context())
			}
			return rt.PermitSemaphore(permits.Name()).Acquire(t.Context(), holdfast.WithWait(wait))
		}
		for what, in := range map[string]struct{ the, way acquire }{
			"lock, fair":   {by(func(rt *holdfast.Runtime) *holdfast.Lock { return rt.Lock(name) }), by(func(rt *holdfast.Runtime) *holdfast.Lock { return rt.FairLock(name) })},
			"fenced, spin": {by(func(rt *holdfast.Runtime) *holdfast.Lock { return rt.FencedLock(name) }), by(func(rt *holdfast.Runtime) *holdfast.Lock { return rt.SpinLock(name) })},
			"read, write":  {reader, writer}, "write, read": {writer, reader}, "permits": {permit, permit},
		} {
			name = p.Name + "-" + strings.ReplaceAll(what, ", ", "-")
			for _, holder := range []*holdfast.Runtime{rt, other} {
				lease, err := in.the(holder, true, 0)
				require.NoError(t, err, what)
				for _, try := range []bool{true, false} {
					var busy *holdfast.BusyError
					for wait := 50 * time.Millisecond; wait < locktest.Patience && busy == nil; wait *= 4 { // Redis may need longer to name the holder
						_, err := in.way(rt, try, wait)
						require.ErrorIs(t, err, holdfast.ErrNotAcquired, what)
						errors.As(err, &busy)
					}
					if assert.NotNil(t, busy, what) {
						assert.Equal(t, holder == rt, busy.Local, "%s, try %v: %v", what, try, busy)
						assert.Equal(t, holder == rt, strings.Contains(busy.Error(), "this very runtime"), busy.Error())
					}
				}
				locktest.Release(t, lease)
			}
		}
	})
}

func TestErrNotAcquired_WithAContextThatHasEnded(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		lock := p.Lock(p.Runtime(t, holdfast.Options{}))
		for _, acquire := range []func(context.Context, ...holdfast.AcquireOption) (*holdfast.Lease, error){lock.Acquire, lock.TryAcquire} {
			_, err := acquire(ended)
			assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
			assert.ErrorIs(t, err, context.Canceled)
		}
		_, err := lock.Inspect(ended)
		assert.ErrorIs(t, err, context.Canceled)
		_, err = lock.ForceRelease(ended)
		assert.ErrorIs(t, err, context.Canceled)
		assert.False(t, p.Exists(t))
	})
}

// A try behind local waiters is refused at once, even when the lock is free at that instant.
func TestErrNotAcquired_ForATryBehindWaiters(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		lease := locktest.Acquire(t, p.Lock(other))
		pending := p.Lock(rt).AcquireAsync(t.Context())
		p.WaitForWaiting(t, rt, 1)
		_, err := p.Lock(rt).TryAcquire(t.Context())
		var busy *holdfast.BusyError
		assert.ErrorAs(t, err, &busy)
		locktest.Release(t, lease)
		next, err := pending.Lease()
		require.NoError(t, err)
		locktest.Release(t, next)
	})
}

func TestErrNotHeld_OnASecondRelease(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		lease := locktest.Acquire(t, p.Lock(rt))
		assert.NoError(t, lease.Err())
		locktest.Release(t, lease)
		next := locktest.Acquire(t, p.Lock(rt))
		for range 3 {
			err := lease.Release(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrNotHeld)
			assert.ErrorContains(t, err, p.Name)
		}
		assert.ErrorIs(t, lease.Err(), holdfast.ErrNotHeld)
		assert.True(t, next.Valid(), "the next lease is not affected")
		assert.Equal(t, map[string]string{next.ID(): "1"}, p.Fields(t))
		locktest.Release(t, next)
	})
}

func TestErrTooManyWaiters_AtOnce(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		const most = 7
		rt := p.Runtime(t, holdfast.Options{MaxWaiters: most})
		lease := locktest.Acquire(t, p.Lock(rt))
		var waiting []*holdfast.Pending
		for range most {
			waiting = append(waiting, p.Lock(rt).AcquireAsync(t.Context()))
		}
		p.WaitForWaiting(t, rt, most)
		_, err := p.Lock(rt).Acquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrTooManyWaiters)
		assert.NotErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.ErrorContains(t, err, p.Name)
		_, err = p.Lock(rt).TryAcquire(t.Context()) // a try does not wait
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		assert.NotErrorIs(t, err, holdfast.ErrTooManyWaiters)
		locktest.Release(t, locktest.Acquire(t, p.Another(t).Lock(rt))) // other names have room
		waiting[0].Cancel()
		<-waiting[0].Done()
		waiting[0] = p.Lock(rt).AcquireAsync(t.Context())
		locktest.Release(t, lease)
		for _, pending := range append(waiting[1:], waiting[0]) {
			next, err := pending.Lease()
			require.NoError(t, err)
			locktest.Release(t, next)
		}
	})
}

func TestErrForeignKey_ForWhatIsNoSuchLock(t *testing.T) {
	t.Parallel()
	keys := map[string]func(p *locktest.Place) error{
		"string": func(p *locktest.Place) error { return p.Redis.Set(context.Background(), p.Name, "x", 0).Err() },
		"list":   func(p *locktest.Place) error { return p.Redis.LPush(context.Background(), p.Name, "x").Err() },
		"lock of another kind": func(p *locktest.Place) error {
			fields := []any{"mode", "read", locktest.Stranger(1), 1}
			if p.Kind.Name == "write lock" {
				fields = fields[2:]
			}
			return p.Redis.HSet(context.Background(), p.Name, fields...).Err()
		},
		"hash of numbers": func(p *locktest.Place) error {
			return p.Redis.HSet(context.Background(), p.Name, "views", 10, "clicks", 3).Err()
		},
		"hash with a mode": func(p *locktest.Place) error {
			return p.Redis.HSet(context.Background(), p.Name, "mode", "read", "path", "/srv/data", "user", "bob").Err()
		},
		"hash with the mode write": func(p *locktest.Place) error {
			return p.Redis.HSet(context.Background(), p.Name, "mode", "write", "files", 7).Err()
		},
	}
	for what, set := range keys {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
				ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
				defer cancel()
				require.NoError(t, set(p))
				lock := p.Lock(p.Runtime(t, holdfast.Options{}))
				before := p.Redis.Dump(ctx, p.Name).Val()
				_, err := lock.TryAcquire(ctx)
				assert.ErrorIs(t, err, holdfast.ErrForeignKey)
				assert.ErrorContains(t, err, p.Name)
				_, err = lock.Acquire(ctx) // waiting would not help
				assert.ErrorIs(t, err, holdfast.ErrForeignKey)
				_, err = lock.ForceRelease(ctx)
				assert.ErrorIs(t, err, holdfast.ErrForeignKey)
				if _, err = lock.Inspect(ctx); what != "lock of another kind" {
					assert.ErrorIs(t, err, holdfast.ErrForeignKey)
				}
				assert.Equal(t, before, p.Redis.Dump(ctx, p.Name).Val(), "the key is unchanged")
				assert.Negative(t, p.Redis.PTTL(ctx, p.Name).Val(), "the key has no TTL")
			})
		})
	}
}

func TestErrClosed_ForEverythingAfterClose(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		lock, owner := p.Lock(rt), rt.NewOwner()
		released := locktest.Acquire(t, lock)
		locktest.Release(t, released)
		held := locktest.Acquire(t, lock, holdfast.WithLease(time.Minute))
		require.NoError(t, rt.Close(t.Context()))

		_, err := lock.Acquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		assert.ErrorContains(t, err, p.Name)
		_, err = lock.TryAcquire(t.Context(), holdfast.WithOwner(owner))
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		_, err = lock.AcquireAsync(t.Context()).Lease()
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		err = lock.Do(t.Context(), func(context.Context) error { assert.Fail(t, "called"); return nil })
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		_, err = lock.Inspect(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		_, err = lock.ForceRelease(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		assert.ErrorIs(t, held.Extend(t.Context(), time.Minute), holdfast.ErrClosed)
		assert.NoError(t, held.Release(t.Context()))
		assert.ErrorIs(t, released.Release(t.Context()), holdfast.ErrNotHeld)
		assert.Equal(t, p.Name, held.Name())
		assert.NotEmpty(t, held.ID())
		assert.True(t, held.ExpiresAt().IsZero())
	})
}

func TestErrInvalid_NamesWhatIsWrongWithAnAcquire(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt, other := p.Runtime(t, holdfast.Options{}), p.Runtime(t, holdfast.Options{})
		stranger := other.NewOwner()
		for text, options := range map[string][]holdfast.AcquireOption{
			"lease 0s":             {holdfast.WithLease(0)},
			"lease -1s":            {holdfast.WithLease(-time.Second)},
			"lease 49ms":           {holdfast.WithLease(49 * time.Millisecond)},
			"lease 24h0m0.001s":    {holdfast.WithLease(24*time.Hour + time.Millisecond)},
			"wait 0s":              {holdfast.WithWait(0)},
			"wait -1ns":            {holdfast.WithWait(-1), holdfast.WithLease(time.Minute)},
			stranger.String():      {holdfast.WithOwner(stranger)},
			"of another runtime":   {holdfast.WithOwner(stranger), holdfast.WithLease(time.Minute)},
			"lease 1ns is not bet": {holdfast.WithWait(time.Second), holdfast.WithLease(1)},
			"renewed lease 0s":     {holdfast.WithRenewedLease(0)},
			"renewed lease 1ms":    {holdfast.WithRenewedLease(time.Millisecond)},
			"at-most 0s":           {holdfast.WithAtMost(0)},
			"at-most 1ms":          {holdfast.WithAtMost(time.Millisecond)},
			"at-least 0s":          {holdfast.WithAtLeast(0)},
			"at-least -1ns":        {holdfast.WithAtLeast(-1)},
		} {
			_, err := p.Lock(rt).Acquire(t.Context(), options...)
			assert.ErrorIs(t, err, holdfast.ErrInvalid)
			assert.ErrorContains(t, err, text)
			assert.ErrorContains(t, err, p.Name)
			assert.ErrorIs(t, p.Lock(rt).Do(t.Context(), nil, options...), holdfast.ErrInvalid)
		}
		_, err := p.Lock(rt).TryAcquire(t.Context(), holdfast.WithWait(time.Second))
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.ErrorContains(t, err, "WithWait")
		_, err = p.Lock(rt).Acquire(holdfast.ContextWithOwner(t.Context(), stranger))
		assert.ErrorIs(t, err, holdfast.ErrInvalid)
		assert.False(t, p.Exists(t))
		for _, ok := range []holdfast.AcquireOption{
			holdfast.WithLease(50 * time.Millisecond), holdfast.WithLease(24 * time.Hour), holdfast.WithWait(time.Hour), holdfast.WithOwner(holdfast.Owner{}),
		} {
			lease, err := p.Lock(rt).Acquire(t.Context(), ok)
			assert.NotErrorIs(t, err, holdfast.ErrInvalid)
			if err == nil { // on a busy machine the lease of 50 ms may end before Acquire returns or before the release
				_ = lease.Release(t.Context())
			}
		}
	})
}

func TestErrInvalid_NamesWhatIsWrongWithAName(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		for name, text := range map[string]string{
			"": "empty", strings.Repeat("x", 513): "512", "a\xffb": "UTF-8", "a\nb": "control", "a\x7f": "control",
			"a{": "brace", "a}": "brace", "{}a": "brace", "{a}{b}": "brace", "}a{": "brace", "{{a}}": "brace",
		} {
			lock := p.Kind.Lock(rt, name)
			assert.Equal(t, name, lock.Name())
			assert.NotNil(t, lock.PID())
			_, acquireErr := lock.Acquire(t.Context())
			_, tryErr := lock.TryAcquire(t.Context())
			_, asyncErr := lock.AcquireAsync(t.Context()).Lease()
			_, inspectErr := lock.Inspect(t.Context())
			_, forceErr := lock.ForceRelease(t.Context())
			doErr := lock.Do(t.Context(), nil)
			for _, err := range []error{acquireErr, tryErr, asyncErr, inspectErr, forceErr, doErr} {
				assert.ErrorIs(t, err, holdfast.ErrInvalid, "%q", name)
				assert.ErrorContains(t, err, text, "%q", name)
			}
		}
		for _, end := range []string{"{a}", "{a}y", strings.Repeat("y", 512-len(p.Name)), "Ärger 日本", "a:b*?[c]", "redisson_lock__channel", " "} {
			lease := locktest.Acquire(t, p.Kind.Lock(rt, p.Name+end))
			assert.Equal(t, p.Name+end, lease.Name())
			locktest.Release(t, lease)
		}
	})
}

// errors.As finds the error of Redis in an error of this package.
func TestErrors_KeepTheCause(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		lock := p.Lock(p.Runtime(t, holdfast.Options{}))
		lease := locktest.Acquire(t, lock)
		require.NoError(t, p.Redis.ACLSetUser(t.Context(), "default", "-evalsha").Err())
		_, acquireErr := p.Another(t).Lock(p.Runtime(t, holdfast.Options{})).Acquire(t.Context())
		_, inspectErr := lock.Inspect(t.Context())
		_, forceErr := lock.ForceRelease(t.Context())
		for _, err := range []error{lease.Release(t.Context()), acquireErr, inspectErr, forceErr} {
			var server redis.Error
			assert.ErrorAs(t, err, &server)
			assert.ErrorContains(t, err, "evalsha")
			assert.False(t, errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrLeaseLost))
		}
		require.NoError(t, p.Redis.ACLSetUser(t.Context(), "default", "+evalsha").Err())
	})
}
