package holdfast

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/protocol"
)

// Options configure a Runtime. The zero value works.
type Options struct {
	// Lease is the watchdog lease: how long Redis keeps a lock whose holder has died. It is renewed every Lease/3.
	// 50 ms to 24 h; default 30 s. Shorter frees the locks of crashed holders sooner and renews more often.
	Lease time.Duration
	// RenewBatch is how many locks one renewal script renews. Default 100, at most 10 000: a script blocks the server while it runs.
	RenewBatch int
	// FairWait is how long Redis keeps a place in a fair lock's queue, as Redisson's fairLockWaitTimeout. Default 5 min.
	FairWait time.Duration
	// Handoff bounds passing a lock on inside this process.
	Handoff Handoff
	// MaxWaiters is how many acquires may wait for one name in this process; more are refused with ErrTooManyWaiters. Default 100 000.
	// Each waiter of a fair lock has a place in Redis, and each hand-over moves all of them up. That blocks the server for some 2 ms with
	// 1 000 waiters, and for some 40 ms with 10 000. Bound the waiters of fair locks accordingly.
	MaxWaiters int
	// AckReplicas is how many replicas must acknowledge each new grant of a lock or a permit (WAIT), so that the failover to one of
	// them does not forget it. An acquire that fewer acknowledge is undone, and fails with ErrNotReplicated. What this process hands
	// on is no new grant. Semaphores and latches do not wait. Default 0: none. It makes a failover that forgets a grant less likely,
	// not impossible: the replica that takes over may be another.
	AckReplicas int
	// AckTimeout bounds the wait for AckReplicas; it counts against the lease. Default 1 s, at most Lease/3. It must be shorter than
	// the client's ReadTimeout, and shorter than 5 s: the runtime never waits longer for a reply. Leave room for a round trip.
	AckTimeout time.Duration
	// PubSub says how wake-ups are told. On a single server it is always plain; PubSubSharded needs a cluster.
	PubSub PubSubMode
	// NameMapper turns a lock's name into its Redis key, for example to add a prefix. It must be quick and always say the same: the
	// requests of actors wait for it. Default identity.
	NameMapper func(name string) string
	// Logger gets the events, as OnEvent does. Default slog.Default().
	Logger *slog.Logger
	// OnEvent is called with every event, one after the other, off the actors; it may block or panic without harm. When it is
	// more than 1024 events behind, events are dropped and counted. Runtime.Close waits for it, 5 s for a call that does not come
	// back; so it should not call Close itself.
	OnEvent func(Event)
	// System is the actor system to live in. Default: an own one, stopped by Close. A given one is never stopped, and may hold
	// several runtimes. Its root's middleware and supervisor are for the user's actors alone.
	System *actor.ActorSystem
}

// Handoff bounds one turn: how long a process keeps a lock in Redis for one local holder after another. The larger, the fewer
// calls to Redis; the smaller, the sooner other processes get their turn. When a turn ends and nobody else listens, the next one may
// begin with the same call to Redis; about once a second the lock is left free all the same, for those who only poll.
type Handoff struct {
	Max int           // holders per acquisition in Redis; default 10 000; 1 = no hand-off
	For time.Duration // since the acquisition in Redis; default 10 ms, at most Lease/3
}

// PubSubMode says how wake-ups are told: both sides of a lock must agree, Redisson's included.
type PubSubMode int

// The modes. Auto is as Redisson decides it: sharded on a cluster that can, else plain. Sentinel is no cluster, also where go-redis
// has a ClusterClient for it.
const (
	PubSubAuto PubSubMode = iota
	PubSubPlain
	PubSubSharded
)

// complete fills in the defaults and checks everything, for a runtime on this client; the error names every bad field.
func (o Options) complete(client redis.UniversalClient) (Options, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	setDefault(&o.Lease, 30*time.Second)
	setDefault(&o.RenewBatch, 100)
	setDefault(&o.FairWait, 5*time.Minute)
	setDefault(&o.Handoff.Max, 10_000)
	setDefault(&o.MaxWaiters, 100_000)
	waits := o.AckReplicas > 0 || o.AckTimeout != 0
	setDefault(&o.AckTimeout, min(time.Second, o.Lease/3))
	if o.Lease < lease.Min || o.Lease > lease.Max {
		bad("Lease is %v, must be between %v and %v", o.Lease, lease.Min, lease.Max)
	}
	setDefault(&o.Handoff.For, min(10*time.Millisecond, o.Lease/3))
	if o.RenewBatch < 1 || o.RenewBatch > 10_000 {
		bad("RenewBatch is %d, must be between 1 and 10000", o.RenewBatch)
	}
	if o.FairWait < 0 {
		bad("FairWait is %v, must not be negative", o.FairWait)
	}
	if o.Handoff.Max < 1 {
		bad("Handoff.Max is %d, must be at least 1", o.Handoff.Max)
	}
	if o.Handoff.For < 0 || o.Handoff.For > o.Lease/3 {
		bad("Handoff.For is %v, must be between 0 and Lease/3 = %v", o.Handoff.For, o.Lease/3)
	}
	if o.MaxWaiters < 1 {
		bad("MaxWaiters is %d, must be at least 1", o.MaxWaiters)
	}
	if o.AckReplicas < 0 {
		bad("AckReplicas is %d, must not be negative", o.AckReplicas)
	}
	if o.AckTimeout < 0 || o.AckTimeout > o.Lease/3 {
		bad("AckTimeout is %v, must be between 0 and Lease/3 = %v", o.AckTimeout, o.Lease/3)
	} else if waits {
		errs = append(errs, redisnode.CheckAckTimeout(client, o.AckTimeout))
	}
	switch o.PubSub {
	case PubSubAuto, PubSubPlain:
	case PubSubSharded:
		if _, cluster := client.(*redis.ClusterClient); !cluster {
			bad("PubSub is PubSubSharded, which needs a cluster")
		}
	default:
		bad("PubSub is %d, must be PubSubAuto, PubSubPlain or PubSubSharded", o.PubSub)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := actors.Join(errs...); err != nil {
		return o, fmt.Errorf("holdfast: new: %w options: %w", ErrInvalid, err)
	}
	return o, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// AcquireOption changes one acquire. Only the functions of this package make one.
type AcquireOption func(*acquireOptions)

type acquireOptions struct {
	actors.AcquireSpec
	lease, wait bool // the option was given
}

// WithLease asks for a fixed lease, 50 ms to 24 h, that the watchdog does not renew: an acquisition in Redis of its own.
// On re-entry it is ignored on a watchdog hold, and prolongs a fixed one to max(remaining, d).
func WithLease(d time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.Lease, o.lease = d, true }
}

// WithWait bounds the waiting, besides ctx. With TryAcquire it is ErrInvalid.
func WithWait(d time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.Wait, o.wait = d, true }
}

// WithOwner says who acquires: see Owner. An Owner of another runtime is ErrInvalid.
func WithOwner(owner Owner) AcquireOption {
	return func(o *acquireOptions) { o.Owner = owner }
}

// Backoff is how long a waiter of a spin lock pauses between attempts: Initial at first, each time Multiplier times as long, Max at
// most; always with jitter, from half of that up to all of it. Zero fields: 1 ms, 128 ms, 2.
type Backoff = protocol.Backoff

// WithBackoff sets the pauses between the attempts of a spin lock's waiter. With any other kind of lock it is ErrInvalid, whatever b is.
func WithBackoff(b Backoff) AcquireOption {
	return func(o *acquireOptions) { o.Backoff, o.BacksOff = b, true }
}
