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
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
)

// Options configures a Runtime. The zero value works.
type Options struct {
	// Lease is how long Redis keeps a lock whose holder has crashed. The runtime's watchdog renews the leases of held locks every Lease/3.
	// 50 ms to 24 h; default 30 s. A shorter lease frees the locks of crashed holders sooner, and is renewed more often.
	Lease time.Duration
	// RenewBatch is the maximum number of locks that one renewal script renews. Default 100, at most 10 000: a script blocks the server
	// while it runs.
	RenewBatch int
	// FairWait is how long Redis keeps the place of a waiter in a fair lock's queue (Redisson's fairLockWaitTimeout). Default 5 min. If a process
	// dies, other Holdfast processes that use the lock remove the places of the dead process within one lease.
	FairWait time.Duration
	// Handoff limits how long this process passes a lock on among its own waiters.
	Handoff Handoff
	// MaxWaiters is the number of acquires that may wait for one name in this process. Any further acquire fails with ErrTooManyWaiters. Default
	// 100 000. Each waiter of a fair lock has a place in a queue in Redis, and each hand-over moves all the places up. This move blocks the server
	// for about 2 ms with 1 000 waiters, and for about 40 ms with 10 000. Limit the waiters of fair locks accordingly.
	MaxWaiters int
	// AckReplicas is the number of replicas that must acknowledge each new grant of a lock or a permit. Default 0. A grant survives a failover to a
	// replica that has acknowledged it. A failover may still lose the grant, because another replica may be promoted. The runtime sends the command
	// WAIT to learn how many replicas have acknowledged. If too few have acknowledged, the acquire is undone and fails with ErrNotReplicated. When
	// a lock is passed on inside the process, there is no new grant and no WAIT. Operations on semaphores and latches do not use WAIT either.
	AckReplicas int
	// AckTimeout limits the wait for AckReplicas. The lease already runs during this wait. Default 1 s, or Lease/3 if that is less; at most
	// Lease/3. Redis replies only after this wait, and the runtime waits at most 5 s for a reply. So AckTimeout must be shorter than 5 s, and
	// shorter than the client's ReadTimeout. Leave some time for a round trip.
	AckTimeout time.Duration
	// PubSub selects how wake-ups are published. On a single server they are always plain messages; PubSubSharded requires a cluster.
	PubSub PubSubMode
	// NameMapper maps a lock's name to its Redis key, for example to add a prefix. It must be fast and deterministic: it is called
	// whenever a handle is made, and messages to Lock.PID wait for it. Default: the key is the name.
	NameMapper func(name string) string
	// Logger receives the same events as OnEvent: a constant message for each type of event, with the event's fields as attributes.
	// Default slog.Default().
	Logger *slog.Logger
	// OnEvent is called with every event, one at a time, outside the actors; it may block or panic without harm. Once it is more
	// than 1024 events behind, further events are dropped and counted. Runtime.Close waits up to 5 s for a running call, so OnEvent
	// should not call Close itself.
	OnEvent func(Event)
	// SlowWait is how long an acquire may wait before it is reported, once, by a Waiting event and by Trace.Waiting. Default 0: never.
	SlowWait time.Duration
	// Linger is how long a released lock stays in Redis, so that the next acquire of this process need not call Redis. Default 0: the lock is
	// released at once. At most Lease/4. The time begins with the first release after the lock was acquired in Redis. Later acquires and releases
	// in this process do not prolong it. Use Linger for locks that one process takes again and again, such as the lock of a partition, an account or
	// a session.
	//
	// While a lock lingers, others find it taken. If another Holdfast process wants the lock, it gets the lock within milliseconds. Any other client
	// gets the lock when the time of Linger has passed. If this process dies, others wait for the rest of the lease, in the same way as after the
	// death of a holder. Close, Shutdown and ForceRelease free a lingering lock at once.
	//
	// Linger applies to plain, fenced and write locks that are renewed and have the usual lease, Options.Lease. It needs one more connection to
	// Redis, and rights to the channels "holdfast_demand:*": see SECURITY.md.
	Linger time.Duration
	// Trace has functions that are called for acquires, leases, renewals and calls to Redis. Default nil. Module otelholdfast makes a Trace for
	// OpenTelemetry.
	Trace *Trace
	// Migrating is for a fleet that moves from redsync or redislock to Holdfast process by process. These libraries write a string under a lock's
	// key. With Migrating, such a string means that the lock is taken: acquires wait, and try again every 50 to 250 ms. Without Migrating, these
	// acquires fail with ErrForeignKey. The old libraries wait for Holdfast's locks with or without Migrating. Default false. Migrating needs the
	// right to call TYPE.
	Migrating bool
	// Process is a readable name for this process. Package inspect shows it to people who look at the locks that the process holds. HostProcess
	// makes such a name. At most 512 bytes of UTF-8 without control characters. Default "": the process has no name in Redis. The name is stored in
	// the key "holdfast_process:{all}:ID", where ID is Runtime.ID. The key's TTL is Lease or 30 s, whichever is longer. The runtime renews the key
	// three times per TTL, and Close deletes it. Locks do not depend on this key.
	Process string
	// System is the actor system that the runtime runs in. By default the runtime creates its own system, and stops it on Close. If you set System,
	// the runtime never stops that system, and several runtimes may share it. The middleware and the supervisor of the system's root apply only to
	// the user's actors, not to the runtime's actors.
	System *actor.ActorSystem
}

// Handoff limits a turn: the time for which a process keeps a lock in Redis while one local holder after another uses it. With larger values, there
// are fewer calls to Redis. With smaller values, other processes get their turn sooner. When a turn ends and no other process subscribes to the
// lock's channel, the next turn may begin in the same call to Redis. But clients that only poll do not subscribe. To give such clients a chance,
// the process leaves the lock free for 25 ms about once a second.
type Handoff struct {
	Max int           // holders per acquisition in Redis; default 10 000; 1 = no hand-off
	For time.Duration // how long the turn may last after the acquisition in Redis; default 10 ms, at most Lease/3
}

// PubSubMode selects how wake-ups are published. All clients of a lock, including Redisson's clients, must use the same mode.
type PubSubMode int

// PubSubAuto decides as Redisson does: it uses sharded messages on a cluster that supports them, and plain messages everywhere else. Sentinel is
// not a cluster, even where go-redis uses a ClusterClient for Sentinel.
const (
	PubSubAuto PubSubMode = iota
	PubSubPlain
	PubSubSharded
)

// complete fills in the defaults for a runtime that uses this client, and checks every field. The error names all invalid fields.
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
	if o.SlowWait < 0 {
		bad("SlowWait is %v, must not be negative", o.SlowWait)
	}
	if o.Linger < 0 || o.Linger > o.Lease/4 {
		bad("Linger is %v, must be from 0 to a quarter of the lease, %v", o.Linger, o.Lease/4)
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
	if err := protocol.CheckProcess(o.Process); err != nil {
		bad("Process: %v", err)
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

// AcquireOption changes one acquire. Only the functions of this package make options.
type AcquireOption func(*acquireOptions)

type acquireOptions struct {
	wait.AcquireSpec
	lease, renewed, atMost, atLeast, wait bool // whether the option was given
}

// WithLease acquires the lock for a fixed time d, 50 ms to 24 h, without renewal. Such an acquire always calls Redis. If an owner re-enters a lease
// that the watchdog renews, WithLease has no effect. If an owner re-enters a fixed lease that ends before now + d, its end moves to now + d.
func WithLease(d time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.Lease, o.lease = d, true }
}

// WithRenewedLease acquires the lock with a lease of d, 50 ms to 24 h, instead of Options.Lease. The lease is renewed every d/3. Such an acquire
// always calls Redis. When an owner re-enters, WithRenewedLease has no effect. An acquire with both WithRenewedLease and WithLease fails with
// ErrInvalid.
func WithRenewedLease(d time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.Renewed, o.renewed = d, true }
}

// WithAtLeast keeps the lock taken for at least d, 50 ms to 24 h, after the acquire. Until then nobody else can acquire the lock, not even a client
// of Redisson. The lock stays taken even if the lease is released, its runtime is closed or its process dies. Release works as usual: the lease
// ends at once, and no LeaseLost event reports it. ForceRelease frees the lock sooner. Use WithAtLeast for a short job that several processes start
// at slightly different times: those that start it late find the lock taken.
//
// Such an acquire always calls Redis. If an owner re-enters with WithAtLeast, the lock stays taken until d has passed since the re-entry. If an
// earlier acquire of the owner asked for a later time, the later time counts. For a multi lock, d begins when all members are acquired.
// Lease.Extend never frees the lock before d has passed. The acquire fails with ErrInvalid if d exceeds the time of WithLease or WithAtMost. It
// also fails with ErrInvalid for every kind except lock, fenced, fair and write lock.
func WithAtLeast(d time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.AtLeast, o.atLeast = d, true }
}

// WithAtMost limits the time for which the lock is held to d, 50 ms to 24 h. The lease is renewed until d has passed since the acquire. Then the
// lease is lost, with the reason "at most". Use WithAtMost for holders that may hang. Such an acquire always calls Redis. When an owner re-enters,
// WithAtMost has no effect. An acquire with both WithAtMost and WithLease fails with ErrInvalid. WithAtMost also fails with ErrInvalid for every
// kind except lock, fenced, fair and write lock.
func WithAtMost(d time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.AtMost, o.atMost = d, true }
}

// WithWait limits the time that the acquire spends waiting, in addition to ctx. When d has passed, the error matches ErrNotAcquired. The error is a
// *BusyError if others have the lock. If Redis has not answered, the error wraps the cause. TryAcquire with WithWait fails with ErrInvalid.
func WithWait(d time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.Wait, o.wait = d, true }
}

// WithOwner acquires on behalf of owner: see Owner. With an Owner of another runtime, the acquire fails with ErrInvalid.
func WithOwner(owner Owner) AcquireOption {
	return func(o *acquireOptions) { o.Owner = owner }
}

// Backoff sets how long a waiter of a spin lock pauses between attempts. The first pause is Initial (default 1 ms). Each following pause is
// Multiplier (default 2) times as long as the pause before, but at most Max (default 128 ms). Random jitter shortens each pause by up to half. See
// [protocol.Backoff].
type Backoff = protocol.Backoff

// WithBackoff sets the pauses between the attempts of a spin lock's waiter. For any other kind of lock, an acquire with WithBackoff fails with
// ErrInvalid, even if b is zero.
func WithBackoff(b Backoff) AcquireOption {
	return func(o *acquireOptions) { o.Backoff, o.BacksOff = b, true }
}
