// Package holdfast provides distributed locks on Redis for Go services: reentrant, fair, fenced, spin and read/write locks, semaphores and
// latches. Except for fair locks and permits, a process competes for a lock in Redis only once, no matter how many of its goroutines are waiting.
// The process passes the lock from one goroutine to the next without calling Redis. Leases are renewed automatically, in batches. Keys, channels
// and messages are Redisson's, so Go and Java services can share the same locks.
//
//	rt, err := holdfast.New(client, holdfast.Options{}) // one per process
//	err = rt.Lock("orders").Do(ctx, func(ctx context.Context) error {
//		return work(ctx) // ctx ends if the lock is lost
//	})
//
// The folder doc of the repository has guides: start.md, choosing.md, leases.md, ending.md, testing.md, operations.md and others.
//
// # Kinds
//
// [Runtime.Lock] is right most of the time. [Runtime.FairLock] serves waiters of all processes in order of arrival. [Runtime.FencedLock] gives
// each lease a token, with which a resource can refuse late holders. [Runtime.RWLock] lets many readers hold the lock at the same time.
// [Runtime.SpinLock] polls. [Multi] and [Red] acquire several locks as one. [Runtime.PermitSemaphore] has n permits, each of which is a lease.
// [Runtime.Semaphore] has n permits without owners. [Runtime.CountDownLatch] waits for n events. [Runtime.Election] keeps one leader among
// processes.
//
// [Lock.Do] runs a function under a lock, [Lock.TryDo] only if the lock is free. [Lock.Acquire] returns a [Lease]; the context passed to Acquire
// limits the wait, not the lease. [WithWait], [WithLease], [WithAtLeast], [WithAtMost] and [WithOwner] change one acquire.
//
// # Options
//
// The zero [Options] work. Lease sets how long the locks of a crashed process stay taken. Handoff limits how long a process passes a lock on
// among its own waiters. Linger keeps a released lock for the next acquire of the same process. AckReplicas makes it less likely that a
// failover loses a lock. NameMapper maps names to keys. Process names the process for people who look at its locks.
//
// # What a lease means
//
// A lease acquired without [WithLease] is renewed every Options.Lease/3 until it is released. [Lease.Valid], [Lease.Done] and [Lease.Context]
// report its end at the local deadline, before the server can expire the key. The local deadline is the time at which the last successful
// acquire or renewal was sent, plus the lease, minus 1 % of the lease and 2 ms. Losses that cannot be predicted (a deleted or evicted key, a
// force-release, a failover) are reported within Options.Lease/3.
//
// No lock service can guarantee exclusion to a process that was paused past its lease. Check [Lease.Valid] immediately before each side effect,
// or give the resource a fencing token ([Runtime.FencedLock]).
//
// # Ending
//
// [Runtime.Shutdown] refuses new acquires, waits until the last lease has been released, and closes the runtime. Call it with a time limit when
// the service stops, before closing the client.
//
// [Runtime.Close] does not wait for holders. It ends every lease at once, so another process may get a lock while code of this process still
// works under its lease. [Lease.Done], [Lease.Err] and the lease's context report the end to that code, and Do returns [ErrClosed].
//
// # Errors
//
// Match errors with [errors.Is] against the sentinels of this package. The cause, often an error of go-redis, is wrapped too.
//
// # Testing
//
// Package holdfasttest is a Redis in memory for tests of services. It can lose locks and cut connections, and it uses the time of a
// testing/synctest bubble. Package embedded is a Redis in memory for programs that are not tests.
//
// # Observability
//
// [Options.OnEvent] and the log report losses. [Options.Trace], [Runtime.Stats] and [Runtime.Held] show what happens in a process. Module
// otelholdfast exports spans and metrics to OpenTelemetry. Package inspect, package web and the command cmd/holdfast show the locks that are in
// Redis. [Runtime.Check] looks for missing rights and settings.
package holdfast

import (
	"cmp"
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Runtime provides the locks of one Redis. It is safe for concurrent use. A process usually has one Runtime per Redis.
type Runtime struct {
	id     string
	engine *actors.Engine
}

// New starts a lock runtime on client, which the caller owns and closes after the runtime. New does no I/O; see Runtime.Check.
//
// The client is a *redis.Client (also one made by redis.NewFailoverClient) or a *redis.ClusterClient. For any other type, and for
// options out of range, the error matches ErrInvalid. Add hooks before calling New. The runtime calls the masters of a cluster
// directly: use ClusterClient.OnNewNode to add hooks that must see these calls.
//
// A program for a 32-bit platform gets an error, because protoactor does not work there.
func New(client redis.UniversalClient, options Options) (*Runtime, error) {
	// protoactor turns a 32-bit hash into an int, and uses it as an index of its table of actors. In 32 bits that int may be negative. Then
	// protoactor panics, or an actor never starts.
	if strconv.IntSize < 64 {
		return nil, fmt.Errorf("holdfast: new: %s/%s is not supported, because protoactor needs a 64-bit platform", goruntime.GOOS, goruntime.GOARCH)
	}
	if err := checkClient(client); err != nil {
		return nil, err
	}
	o, err := options.complete(client)
	if err != nil {
		return nil, err
	}
	engine, err := actors.Start(actors.Config{
		Seams: actors.SeamsOf(o.System), Client: client, System: o.System, PubSub: redisnode.PubSub(o.PubSub), RenewBatch: o.RenewBatch, FairWait: o.FairWait, Migrating: o.Migrating, NameMapper: o.NameMapper,
		Policy: wait.Policy{Lease: o.Lease, HandoffMax: o.Handoff.Max, HandoffFor: o.Handoff.For, MaxWaiters: o.MaxWaiters,
			AckReplicas: o.AckReplicas, AckTimeout: o.AckTimeout, SlowWait: o.SlowWait, Linger: o.Linger},
		Logger: o.Logger, OnEvent: o.OnEvent, Trace: o.Trace, Process: o.Process, Version: version(),
	})
	if err != nil {
		return nil, fmt.Errorf("holdfast: new: %w", err)
	}
	return &Runtime{id: engine.ID(), engine: engine}, nil
}

func checkClient(client redis.UniversalClient) error {
	switch c := client.(type) {
	case *redis.Client:
		if c != nil {
			return checkAttempts("MaxRetries", c.Options().MaxRetries)
		}
	case *redis.ClusterClient:
		if c != nil {
			return cmp.Or(checkAttempts("MaxRetries", c.Options().MaxRetries), checkAttempts("MaxRedirects", c.Options().MaxRedirects))
		}
	case nil:
	default:
		return fmt.Errorf("holdfast: new: %w client: %T is not supported, it must be a *redis.Client or a *redis.ClusterClient", ErrInvalid, client)
	}
	return fmt.Errorf("holdfast: new: %w client: it is nil", ErrInvalid)
}

// checkAttempts returns an error if an option of the client allows fewer than -1 retries or redirects. go-redis takes -1 for none. With fewer, it
// does not make the first attempt either: it sends nothing, and its calls return zero values without an error.
func checkAttempts(option string, further int) error {
	if further < -1 {
		return fmt.Errorf("holdfast: new: %w client: its %s is %d, must be at least -1: with fewer, go-redis sends nothing", ErrInvalid, option, further)
	}
	return nil
}

// Check asks the server whether this runtime can work: reachability, version, role, rights for every script and channel, and
// eviction policy. It takes at most 10 s. To check the rights it uses throw-away names, which are gone afterwards.
//
// The error is a *CheckError that names everything that is missing, the most important first. errors.Is and errors.As also find the errors of
// go-redis that it wraps. Check leaves out the parts of the server's INFO that the user may not read. If ctx is cancelled, Check returns ctx's
// error instead. If the runtime is closing, Check returns ErrClosed.
func (rt *Runtime) Check(ctx context.Context) error { return rt.CheckFor(ctx) }

// CheckFor is Check for the given kinds only. Use it if the Redis user has no rights for other kinds. Without kinds it checks all.
// An unknown kind is ErrInvalid.
func (rt *Runtime) CheckFor(ctx context.Context, kinds ...Kind) error {
	all := scripts.Everything()
	checked := slices.DeleteFunc(slices.Clone(all), func(k *scripts.Kind) bool { return len(kinds) > 0 && !slices.Contains(kinds, k.Name) })
	for _, kind := range kinds {
		if !slices.ContainsFunc(all, func(k *scripts.Kind) bool { return k.Name == kind }) {
			return fmt.Errorf("holdfast: check: %w: unknown kind %s", ErrInvalid, lease.Quoted(string(kind)))
		}
	}
	return rt.engine.CheckServer(ctx, checked)
}

// Shutdown waits until nothing is held any more, then closes the runtime as Close does. From the call on, new acquires and those
// already waiting are refused with ErrClosed. Holders keep their leases, which are renewed and can be extended, re-entered and
// released. Shutdown also waits for leases acquired with WithLease, at most until they expire.
//
// When ctx ends first, Shutdown closes the runtime anyway. The error then matches ctx's error and names the locks that were still
// held, at most ten of them; their leases have ended with ErrClosed. If Close is called meanwhile, Shutdown returns once the
// runtime is closed. It then returns nil, unless closing failed.
//
// Semaphores and latches have no leases to wait for. While Shutdown waits, acquiring permits and waiting for a latch are refused, but releases
// and count-downs still work.
//
// Do not wait for Shutdown while holding a lease of the same runtime: it waits for that lease until ctx ends.
func (rt *Runtime) Shutdown(ctx context.Context) error { return rt.engine.Shutdown(ctx) }

// Close ends the runtime now, without waiting for holders; Shutdown waits for them. Close refuses new work, ends every wait and
// every held lease with ErrClosed, then releases the locks. It returns when no goroutine, timer or subscription of the runtime is
// left; doc/ending.md lists the keys that may stay in Redis. Code that still runs under a lease learns of the end from its context,
// and another process may get the lock meanwhile.
//
// When ctx ends, or has already ended, Close has another 500 ms to release the locks. If Redis does not confirm in that time, Close returns an
// error that matches ctx's. Locks that were not released expire by their TTL. A second Close waits until the first has finished, or until the
// context of the second ends. If locks were left to expire, the error of the second Close says so.
//
// Even if ctx never ends, Close does not wait forever for a Redis that is unreachable. Once Redis has not answered for about Options.Lease/3 (at
// least 1 s, at most 10 s), Close gives up the remaining releases, and its error says so. If Close gives up a release of a Semaphore's
// permits, an Unconfirmed event reports that.
//
// After the releases, Close waits for calls to Redis that have not returned yet. This wait ends after 5 s, or when Options.Lease plus one second
// have passed since Close began, whichever is later. Calls that hang longer than that end with the client's ReadTimeout.
//
// If the client was closed before the runtime, Close cannot release anything, and its error says so. If Redis refuses to release a lock, for
// example because the user lacks a right, the error names the lock.
//
// Close waits at most 5 s for a call of Options.OnEvent or Options.Logger that does not return, and at most 5 s for an actor that blocks the
// delivery of its Lost message. Close then returns an error that says so, although everything is released.
func (rt *Runtime) Close(ctx context.Context) error { return rt.engine.Close(ctx) }

// ID is the UUID of this runtime. Owner fields in Redis begin with it.
func (rt *Runtime) ID() string { return rt.id }

// System is the actor system that the runtime runs in: Options.System, or one that the runtime created.
func (rt *Runtime) System() *actor.ActorSystem { return rt.engine.System() }

// NewOwner returns a new owner for WithOwner and ContextWithOwner. An Owner is valid only in the runtime that made it.
func (rt *Runtime) NewOwner() Owner { return protocol.NewOwner(rt.id, rt.engine.Number()) }

// Lock returns the reentrant lock with this name (Redisson's getLock). Making a handle is cheap and does no I/O.
//
// A bad name is reported by the first call that would use it, as an error matching ErrInvalid. A name is bad if it is empty, is longer than 512
// bytes, is not valid UTF-8, or contains a control character. Braces are allowed only as one non-empty {tag}.
func (rt *Runtime) Lock(name string) *Lock { return rt.lock(scripts.Lock, name) }

// FairLock returns the fair lock with this name (Redisson's getFairLock). It is granted in queue order across goroutines, processes
// and languages. Every waiter queues in Redis, so each hand-over costs round trips to Redis.
//
// When a waiter gives up, its place in the queue goes to the next waiter of the same process. The place of that next waiter goes to the one behind
// it in the same process, and so on. At most sixteen waiters move up in this way. The place that is free in the end is removed from the queue.
// Waiters of other processes never move back.
//
// If a process dies, its waiters block the others for at most Options.Lease, provided that another Holdfast process uses the lock.
// A waiter of a dead Redisson process keeps its place for Redisson's fairLockWaitTimeout.
func (rt *Runtime) FairLock(name string) *Lock { return rt.lock(scripts.FairLock, name) }

// FencedLock returns the fenced lock with this name (Redisson's getFencedLock). Each of its leases has a fencing token, Lease.Token,
// which is larger than the tokens of all earlier holders. This holds across processes, restarts without persistence and failovers,
// as long as the server's clock is not set back. (Redisson clients may begin again at 1 after a loss of data.) A resource that
// remembers the largest token it has seen, and refuses smaller ones, is safe from late holders (M. Kleppmann, "How to do distributed
// locking", 2016).
//
// Tokens are at most 2^53 - 1. If the token key holds a larger number, or no number, acquiring fails with ErrForeignKey and the key stays
// unchanged. In that case set the key to the largest token ever issued, or delete the key if no token was ever issued.
func (rt *Runtime) FencedLock(name string) *Lock { return rt.lock(scripts.FencedLock, name) }

// SpinLock returns the spin lock with this name (Redisson's getSpinLock). Its waiters poll instead of subscribing: see WithBackoff. Use
// it for very many names that are rarely contended, or for servers without pub/sub.
func (rt *Runtime) SpinLock(name string) *Lock { return rt.lock(scripts.SpinLock, name) }
