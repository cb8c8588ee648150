package faults_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/actors/gateway"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// renaming is a hook that renames the keys of scripts in place, as some programs with several tenants do.
type renaming func(key string) string

func (renaming) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h renaming) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		h.rename(command)
		return next(ctx, command)
	}
}

func (h renaming) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, command := range commands {
			h.rename(command)
		}
		return next(ctx, commands)
	}
}

func (h renaming) rename(command redis.Cmder) {
	if args := command.Args(); strings.HasPrefix(command.Name(), "eval") {
		keys := args[3 : 3+args[2].(int)]
		for i := range keys {
			keys[i] = h(keys[i].(string))
		}
	}
}

// everyKey puts a prefix before every key, and before every channel, too. So scripts publish releases where nobody listens.
func everyKey(key string) string { return "tenant:" + key }

// keysOnly puts the prefix before keys, but not before channels.
func keysOnly(key string) string {
	if scripts.IsChannel(key) {
		return key
	}
	return everyKey(key)
}

// hooked returns a runtime whose client has a hook. With a short lease, the runtime uses a copy of the client with shorter timeouts, and the hook
// must work for the copy, too.
func hooked(t *testing.T, server *redistest.Server, hook redis.Hook, lease time.Duration) *holdfast.Runtime {
	client := locktest.NewClient(t, server.Addr())
	client.AddHook(hook)
	return locktest.NewRuntime(t, client, holdfast.Options{Lease: lease})
}

// A hook may put any prefix before keys. Every kind of lock still works, and messages wake waiters unless the hook also renames channels.
func TestFault_HooksThatRenameKeys(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]renaming{"every key": everyKey, "keys only": keysOnly} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			one, other := hooked(t, server, hook, 0), hooked(t, server, hook, 3*time.Second)
			for _, kind := range locktest.Kinds {
				t.Run(kind.Name, func(t *testing.T) {
					oneAtATime(t, kind.Lock(one, kind.Name), kind.Lock(other, kind.Name), name == "keys only" && !kind.Deaf)
				})
			}
			t.Run("lingers", func(t *testing.T) { wantedUnderAPrefix(t, server, hook, other.Lock("lingers")) })
			t.Run("readers", func(t *testing.T) { readersBeside(t, one.RWLock("readers"), other.RWLock("readers")) })
			t.Run("downgrade", func(t *testing.T) { writerThatReads(t, one, other) })
			t.Run("counts", func(t *testing.T) { countsOfBoth(t, one, other) })
			require.NoError(t, one.Close(t.Context()))
			require.NoError(t, other.Close(t.Context()))
			for _, key := range server.Client(t).Keys(t.Context(), "*").Val() {
				assert.Regexp(t, "^tenant:(redisson_lock_token|holdfast_attempt)", key)
			}
		})
	}
}

// oneAtATime hands a lock back and forth between two processes.
func oneAtATime(t *testing.T, one, other *holdfast.Lock, woken bool) {
	for range 3 {
		lease := locktest.Acquire(t, one)
		_, err := other.TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		waiting := other.AcquireAsync(t.Context())
		locktest.Await(t, "a waiter", func() bool {
			state, err := other.Inspect(t.Context())
			return err == nil && state.Waiting > 0
		})
		locktest.Open(t, "the lock", waiting.Done())
		require.True(t, lease.Valid())
		locktest.Release(t, lease)
		released := time.Now()
		lease, err = waiting.Lease()
		require.NoError(t, err)
		if woken {
			assert.Less(t, time.Since(released), 500*time.Millisecond+locktest.Slack())
		}
		_, err = one.TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		locktest.Release(t, lease)
	}
}

// wantedUnderAPrefix lets a lock linger until another process wants it. The message that says so (the demand) names the lock's key as the server
// knows it, with the prefix. If no message arrives, the waiting process polls.
func wantedUnderAPrefix(t *testing.T, server *redistest.Server, hook redis.Hook, other *holdfast.Lock) {
	client := locktest.NewClient(t, server.Addr())
	client.AddHook(hook)
	one := locktest.NewRuntime(t, client, holdfast.Options{Linger: 7 * time.Second})
	locktest.Await(t, "the demand channel", func() bool {
		return len(server.Client(t).PubSubChannels(t.Context(), "holdfast_demand:*").Val()) == 1
	})
	locktest.Release(t, locktest.Acquire(t, one.Lock(other.Name())))
	began := time.Now()
	locktest.Release(t, locktest.Acquire(t, other))
	assert.Less(t, time.Since(began), 3*time.Second+locktest.Slack())
}

// readersBeside makes readers release one after the other.
func readersBeside(t *testing.T, one, other *holdfast.RWLock) {
	first := locktest.Acquire(t, one.Read(), holdfast.WithLease(time.Minute))
	second := locktest.Acquire(t, other.Read(), holdfast.WithLease(time.Minute))
	third := locktest.Acquire(t, one.Read())
	for _, next := range []*holdfast.Lease{first, third} {
		locktest.Release(t, next)
		_, err := one.Write().TryAcquire(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcquired, "somebody reads")
	}
	locktest.Release(t, second)
	locktest.Release(t, locktest.Acquire(t, one.Write()))
	locktest.Acquire(t, one.Read(), holdfast.WithLease(time.Minute))
	forced, err := other.Read().ForceRelease(t.Context())
	require.NoError(t, err)
	assert.True(t, forced)
}

// writerThatReads downgrades a writer to a reader.
func writerThatReads(t *testing.T, one, other *holdfast.Runtime) {
	const name = "downgrade"
	ctx := holdfast.ContextWithOwner(t.Context(), one.NewOwner())
	writer, err := one.RWLock(name).Write().Acquire(ctx)
	require.NoError(t, err)
	reader, err := one.RWLock(name).Read().Acquire(ctx)
	require.NoError(t, err)
	locktest.Release(t, writer)
	_, err = other.RWLock(name).Write().TryAcquire(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired, "the writer reads")
	locktest.Release(t, reader)
}

// countsOfBoth uses semaphores and a latch from two processes.
func countsOfBoth(t *testing.T, one, other *holdfast.Runtime) {
	permits, same := one.PermitSemaphore("permits"), other.PermitSemaphore("permits")
	_, err := permits.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	lease := locktest.AcquirePermit(t, permits)
	_, err = same.TryAcquire(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	locktest.Release(t, lease)
	locktest.Release(t, locktest.AcquirePermit(t, same))
	_, err = permits.Delete(t.Context())
	require.NoError(t, err)

	semaphore, twin := one.Semaphore("semaphore"), other.Semaphore("semaphore")
	_, err = semaphore.TrySetPermits(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, semaphore.Acquire(t.Context(), 2))
	require.ErrorIs(t, twin.TryAcquire(t.Context(), 1), holdfast.ErrNotAcquired)
	require.NoError(t, semaphore.Release(t.Context(), 2))
	require.NoError(t, twin.Acquire(t.Context(), 2))
	_, err = semaphore.Delete(t.Context())
	require.NoError(t, err)

	latch, mirror := one.CountDownLatch("latch"), other.CountDownLatch("latch")
	_, err = latch.TrySetCount(t.Context(), 1)
	require.NoError(t, err)
	count, err := mirror.Count(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, count)
	require.NoError(t, mirror.CountDown(t.Context()))
	require.NoError(t, latch.Wait(t.Context()))
}

// Check detects a hook with which locks do not work.
func TestFault_CheckOfHooks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	t.Run("keys only", func(t *testing.T) {
		assert.NoError(t, hooked(t, server, renaming(keysOnly), 0).Check(t.Context()))
	})
	t.Run("channels", func(t *testing.T) {
		client := locktest.NewClient(t, server.Addr())
		client.AddHook(renaming(everyKey))
		found := checked(t, client, holdfast.Options{})
		require.Len(t, found.Findings, 1)
		assert.Equal(t, "a hook of the client renames channels: releases wake no waiter", found.Findings[0].What)
		assert.Contains(t, found.Findings[0].Why, `"tenant:redisson_`)
		assert.Contains(t, found.Findings[0].Remedy, "Options.NameMapper")
		assert.NoError(t, locktest.NewRuntime(t, client, holdfast.Options{}).CheckFor(t.Context(), holdfast.KindSpin), "nobody listens")
	})
	for name, hook := range map[string]renaming{
		"one key only": func(key string) string {
			if strings.Contains(key, ":") {
				return key
			}
			return everyKey(key)
		},
		"another name each time": func(key string) string { return keysOnly(redistest.Name(t) + key) },
		"behind the name": func(key string) string {
			if keysOnly(key) == key {
				return key
			}
			return key + ".tenant"
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := locktest.NewClient(t, server.Addr())
			client.AddHook(hook)
			found := checked(t, client, holdfast.Options{}, holdfast.KindRead, holdfast.KindSemaphore)
			assert.Equal(t, "a hook of the client renames the keys of scripts, and not all in the same way", found.Findings[0].What)
		})
	}
}

// leaving is a hook. If it is armed, it ends the goroutine that sends the next pipeline, as t.FailNow does, and is then no longer armed.
type leaving struct{ armed atomic.Bool }

func (*leaving) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*leaving) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (l *leaving) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if l.armed.Swap(false) {
			runtime.Goexit()
		}
		return next(ctx, commands)
	}
}

// A hook may end the goroutine on which it runs: a caller's or a worker's. Locks stay usable. If a lock or a permit was granted to a goroutine that
// has ended, it is released.
func TestFault_HookThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	var hook leaving
	rt := hooked(t, redistest.Start(t), &hook, shortLease)
	lock, permits := rt.Lock("orders"), rt.Semaphore("permits")
	_, err := permits.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	var gone atomic.Int32 // callers whose goroutines the hook has ended

	// At least one call must be sent on its caller's goroutine. On a busy machine, workers send most calls, so the test may need more rounds.
	for n := 0; n < gateway.StuckMax+2 || gone.Load() == 0 && n < 100; n++ {
		var lease *holdfast.Lease
		for name, do := range map[string]func() error{
			"acquire": func() error {
				lease, err := lock.Acquire(t.Context())
				if err != nil {
					return err
				}
				return lease.Release(t.Context())
			},
			"release": func() error { return lease.Release(t.Context()) },
			"take": func() error {
				if err := permits.Acquire(t.Context(), 1); err != nil {
					return err
				}
				return permits.Release(t.Context(), 1)
			},
			"try": func() error {
				lease, err := lock.TryAcquire(t.Context())
				if err != nil {
					return err
				}
				return lease.Release(t.Context())
			},
		} {
			if name == "release" {
				lease = locktest.Acquire(t, lock)
			}
			ended := make(chan struct{})
			hook.armed.Store(true)
			go func() {
				returned := false
				defer func() {
					if !returned {
						gone.Add(1)
					}
					close(ended)
				}()
				err := do() // if `do` returns, the hook has ended another goroutine: a worker, or the goroutine of another caller
				returned = true
				assert.True(t, err == nil || name == "try", "%s returned %v", name, err)
			}()
			locktest.Closed(t, name, ended)
			hook.armed.Store(false)
			locktest.Release(t, locktest.Acquire(t, lock))
			require.NoError(t, permits.Acquire(t.Context(), 1))
			require.NoError(t, permits.Release(t.Context(), 1))
		}
	}
	assert.Positive(t, gone.Load())
	require.NoError(t, rt.Close(t.Context()))
}

// hanging is a hook in which a pipeline that begins with a PING hangs until the end of the test.
type hanging struct {
	renaming
	until <-chan struct{}
}

func (h hanging) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if commands[0].Name() == "ping" { // from Check: in a gateway's pipelines, PING comes last
			<-h.until
		}
		return next(ctx, commands)
	}
}

// Close does not wait for ever for a call of Check.
func TestFault_HookThatHangsInCheck(t *testing.T) {
	t.Parallel()
	until := make(chan struct{})
	t.Cleanup(func() { close(until) })
	client := locktest.NewClient(t, redistest.Shared(t).Addr())
	client.AddHook(hanging{renaming(func(key string) string { return key }), until})
	rt, err := holdfast.New(client, holdfast.Options{Lease: shortLease, Logger: locktest.Quiet()})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, rt.Check(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		assert.ErrorContains(t, rt.Close(context.Background()), "a hook of the client may hang")
	}()
	locktest.Closed(t, "Close", ended)
}

// The functions that the user gives to go-redis run on each new connection. If one panics, that is reported, and the runtime tries again. This
// holds for scripts, for the connection that receives the messages of releases, and for the discovery of a cluster's masters.
func TestFault_OnConnectThatPanics(t *testing.T) {
	t.Parallel()
	p := locktest.OwnPlace(t, locktest.Kinds[0])
	var sick atomic.Bool
	client := locktest.ClientWith(t, &redis.Options{Addr: p.Addr, OnConnect: func(context.Context, *redis.Conn) error {
		if sick.Load() {
			panic("of OnConnect")
		}
		return nil
	}})
	var events locktest.Recorder
	rt := locktest.NewRuntime(t, client, holdfast.Options{OnEvent: events.Record})
	locktest.Release(t, locktest.Acquire(t, p.Another(t).Lock(rt))) // makes a connection for scripts
	held := locktest.Acquire(t, p.Lock(p.Runtime(t, holdfast.Options{})))
	sick.Store(true)
	pending := p.Lock(rt).AcquireAsync(t.Context())
	locktest.Await(t, "the event", func() bool { return len(locktest.Recorded[holdfast.ActorPanicked](&events)) > 0 })
	_ = rt.Check(t.Context()) // Check makes connections of its own
	sick.Store(false)
	p.WaitForListener(t)
	locktest.Release(t, held)
	lease, err := pending.Lease()
	require.NoError(t, err)
	locktest.Release(t, lease)
}

func TestFault_OnConnectThatPanicsOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, locktest.Patience)
	var sick atomic.Bool
	sick.Store(true)
	client := closed(t, redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: cluster.Addrs(), MaintNotificationsConfig: noMaintenance(), OnConnect: func(context.Context, *redis.Conn) error {
			if sick.Load() {
				panic("of OnConnect")
			}
			return nil
		},
	}))
	rt := locktest.NewRuntime(t, client, holdfast.Options{})
	_, err := rt.Lock("orders").TryAcquire(t.Context())
	require.ErrorContains(t, err, "the Redis client panicked: of OnConnect")
	require.ErrorContains(t, rt.Check(t.Context()), "the Redis client panicked: of OnConnect")
	sick.Store(false)
	locktest.Release(t, locktest.Acquire(t, rt.Lock("orders")))
}
