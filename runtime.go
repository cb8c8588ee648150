// Package holdfast is an embeddable lock runtime on Redis. Every lock name maps to an actor that serializes acquire, release and
// renew; one contender per process asks Redis, and inside the process a lock is passed on without Redis; leases are renewed in
// batches. Keys, channels and messages are Redisson's, so Go and Java services share the same locks.
//
//	rt, err := holdfast.New(client, holdfast.Options{})
//	lease, err := rt.Lock("orders").Acquire(ctx)
//	defer lease.Release(ctx)
//
// # What a lease means
//
// A lease without WithLease is renewed every Options.Lease/3 until it is released. Lease.Valid, Lease.Done and Lease.Context turn
// before the server can expire the key: the local deadline is the instant before the last successful acquire or renew was sent,
// plus the lease, minus 1 % and 2 ms. What nobody can foresee (the key deleted or evicted, a force-release, a failover) is told
// within Options.Lease/3. No lock service can promise exclusion to a process that was paused past its lease: check Valid close to
// the effect, or give the resource a fencing token.
//
// # Shutting down
//
// Runtime.Shutdown refuses new acquires, waits until the last lease has been released, and closes the runtime: call it with a time limit
// when the service stops, before closing the client. Runtime.Close does not wait. It ends every lease at once, so another process
// may get a lock while code here still works under it. Lease.Done, Lease.Err and the lease's context tell that code,
// and Do returns ErrClosed.
//
// # Errors
//
// Match them with errors.Is against the sentinels of this package; the cause, often an error of go-redis, is wrapped too.
package holdfast

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Runtime makes locks on one Redis. It is safe for concurrent use; a process usually has one per Redis.
type Runtime struct {
	id     string
	engine *actors.Engine
}

// New starts a lock runtime on a client that the caller owns and closes after the runtime: a *redis.Client, also one of
// redis.NewFailoverClient, or a *redis.ClusterClient (whose masters are asked directly: hooks that are to see that are added with
// its OnNewNode). Add hooks before New. Anything else, and options out of range, match ErrInvalid. New does no I/O; see Check.
func New(client redis.UniversalClient, options Options) (*Runtime, error) {
	return newRuntime(client, options, actors.SeamsOf(options.System))
}

func newRuntime(client redis.UniversalClient, options Options, s actors.Seams) (*Runtime, error) {
	if err := checkClient(client); err != nil {
		return nil, err
	}
	o, err := options.complete(client)
	if err != nil {
		return nil, err
	}
	if s.ID == "" {
		s.ID = newUUID()
	}
	if s.First == 0 {
		s.First = uint64(mathrand.Int64N(1 << 52))
	}
	if s.Jitter == nil {
		s.Jitter = func(d time.Duration) time.Duration { return mathrand.N(max(d, 1)) }
	}
	engine, err := actors.Start(actors.Config{
		Client: client, ID: s.ID, System: o.System, PubSub: redisnode.PubSub(o.PubSub), RenewBatch: o.RenewBatch, FairWait: o.FairWait, NameMapper: o.NameMapper,
		Policy: actors.Policy{Lease: o.Lease, HandoffMax: o.Handoff.Max, HandoffFor: o.Handoff.For, MaxWaiters: o.MaxWaiters,
			AckReplicas: o.AckReplicas, AckTimeout: o.AckTimeout},
		Logger: o.Logger, OnEvent: o.OnEvent, FirstNumber: s.First, Clock: s.Clock, Jitter: s.Jitter, Salt: s.Salt, Shard: s.Shard, Between: s.Between,
	})
	if err != nil {
		return nil, fmt.Errorf("holdfast: new: %w", err)
	}
	return &Runtime{id: s.ID, engine: engine}, nil
}

func checkClient(client redis.UniversalClient) error {
	switch c := client.(type) {
	case *redis.Client:
		if c != nil {
			return nil
		}
	case *redis.ClusterClient:
		if c != nil {
			return nil
		}
	case nil:
	default:
		return fmt.Errorf("holdfast: new: %w client: %T is not supported, it must be a *redis.Client or a *redis.ClusterClient", ErrInvalid, client)
	}
	return fmt.Errorf("holdfast: new: %w client: it is nil", ErrInvalid)
}

// newUUID is a random UUID (version 4, RFC 9562): 122 random bits from the operating system, so that no two runtimes share one.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Check asks the server whether this runtime can work: reachable, version, role, rights for every script and channel (on throw-away
// names, which are gone afterwards), eviction policy. Its error is a *CheckError that names everything that is missing, the most
// important first; errors.Is and errors.As reach the errors of go-redis underneath. It takes 10 s at most. What the user may not read
// of the server's INFO is not checked. Once the runtime closes, the error is ErrClosed.
func (rt *Runtime) Check(ctx context.Context) error { return rt.CheckFor(ctx) }

// CheckFor is Check for these kinds only: for a user who has the rights for no others. Without any it is for all. An unknown kind is
// ErrInvalid.
func (rt *Runtime) CheckFor(ctx context.Context, kinds ...Kind) error {
	all := scripts.Everything()
	checked := slices.DeleteFunc(slices.Clone(all), func(k *scripts.Kind) bool { return len(kinds) > 0 && !slices.Contains(kinds, k.Name) })
	for _, kind := range kinds {
		if !slices.ContainsFunc(all, func(k *scripts.Kind) bool { return k.Name == kind }) {
			return fmt.Errorf("holdfast: check: %w: unknown kind %s", ErrInvalid, actors.Quoted(string(kind)))
		}
	}
	return rt.engine.CheckServer(ctx, checked)
}

// Shutdown closes the runtime once nothing is held any more. From the call on new acquires are refused with ErrClosed, as are acquires
// that are waiting. Holders keep their leases: they are renewed, and may be extended, re-entered and released. Shutdown waits
// for all of them, for a lease of WithLease at most until it expires, and then closes the runtime as Close does.
//
// When ctx ends first, Shutdown closes the runtime all the same. The error then matches ctx's error and names the locks that were
// still held, at most ten of them; their leases have ended with ErrClosed. A Shutdown that is overtaken by Close returns
// when the runtime is closed.
//
// Semaphores and latches have no leases to wait for. Acquiring permits and waiting for a latch are refused, releases and count-downs are
// not, until the runtime closes.
//
// Do not wait for Shutdown while you hold a lease of the runtime: it would wait for you, until ctx ends.
func (rt *Runtime) Shutdown(ctx context.Context) error { return rt.engine.Shutdown(ctx) }

// Close ends the runtime now. It refuses new work, answers every waiter and every held lease's Done with ErrClosed, then releases the
// locks, and returns when no goroutine, timer, key or subscription of the runtime is left. Code that still works under a
// lease is not waited for: it learns of the end by its context, and another process may get the lock meanwhile. Shutdown waits.
//
// When ctx ends, or has ended before, Close has 500 ms more to release the locks. If that is not enough, because Redis does not answer,
// it returns an error that matches ctx's: what could not be released, or what the server refuses to release, expires by its TTL.
// Later calls wait for the same end.
//
// A ctx without end does not keep Close waiting for a Redis that is away. Once Redis has not answered for Options.Lease/3 (1 s to 10 s, and
// half a second longer than one call may take), Close gives up what is not released yet, and returns an error that says so, at the latest
// a second after Options.Lease, or after these times where they are longer. Permits of a Semaphore that were on their way back are
// reported by an Unconfirmed event. Calls of the client that hang then end with its ReadTimeout.
//
// A call of Options.OnEvent or of the Logger that does not come back, or an actor that blocks who tells it of its loss, is waited
// for only for 5 s: Close then returns an error that says so, with everything released.
func (rt *Runtime) Close(ctx context.Context) error { return rt.engine.Close(ctx) }

// ID is the client UUID used in owner fields.
func (rt *Runtime) ID() string { return rt.id }

// System is the actor system that the runtime's actors live in: Options.System, or an own one.
func (rt *Runtime) System() *actor.ActorSystem { return rt.engine.System() }

// NewOwner makes an owner for WithOwner and ContextWithOwner. Owners of one runtime mean nothing to another.
func (rt *Runtime) NewOwner() Owner { return protocol.NewOwner(rt.id, rt.engine.Number()) }

// Lock is the reentrant lock of this name, Redisson's getLock. Making a handle is cheap and does no I/O. A bad name (empty, over
// 512 bytes, invalid UTF-8, control characters, braces other than exactly one non-empty {tag}) is reported by the first call
// that would use it, as an error matching ErrInvalid.
func (rt *Runtime) Lock(name string) *Lock { return rt.lock(scripts.Lock, name) }

// FairLock is the lock of this name that is granted in the order of queueing, across goroutines, processes and languages, Redisson's
// getFairLock. Each waiter stands in Redis' queue, so a lock changes hands at the cost of Redis' round trips. When a waiter gives up,
// the next waiters of its process, sixteen at most, move up by one of their process's places each, and the process leaves the last one of
// these. So no waiter of another process has more places before it than it had. A waiter whose process has died keeps the others waiting
// for Options.Lease at most while another Holdfast process uses the lock; Redisson's own dead waiters stay for fairLockWaitTimeout.
func (rt *Runtime) FairLock(name string) *Lock { return rt.lock(scripts.FairLock, name) }

// FencedLock is the lock of this name whose leases carry a fencing token (Lease.Token): each holder's is larger than all before it,
// over processes, restarts without persistence and failovers, as long as the server's clock is not set back. A resource that
// remembers the largest token it has seen, and refuses smaller ones, is safe from holders that come late (M. Kleppmann, "How to do
// distributed locking", 2016). Redisson's getFencedLock; after a loss of data its clients may begin again at 1.
//
// Tokens are at most 2^53 - 1. If the token key holds a larger number, or something that is no number, acquiring fails with
// ErrForeignKey, and the key stays as it is: set it to the largest token that was given out, or delete it if none was.
func (rt *Runtime) FencedLock(name string) *Lock { return rt.lock(scripts.FencedLock, name) }

// SpinLock is the lock of this name whose waiters subscribe to nothing and try again and again, see WithBackoff: for very many names
// that are rarely contended, or servers without pub/sub. Redisson's getSpinLock.
func (rt *Runtime) SpinLock(name string) *Lock { return rt.lock(scripts.SpinLock, name) }
