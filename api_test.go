package holdfast_test

import (
	"context"
	"iter"
	"net/http"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"log/slog"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/web"
)

// The public API is a contract. Every symbol is assigned to a variable of its exact type here, so that a changed signature does
// not compile.
var (
	_ func(redis.UniversalClient, holdfast.Options) (*holdfast.Runtime, error)     = holdfast.New
	_ func(*holdfast.Runtime, context.Context) error                               = (*holdfast.Runtime).Check
	_ func(*holdfast.Runtime, context.Context, ...holdfast.Kind) error             = (*holdfast.Runtime).CheckFor
	_ func(*holdfast.Runtime, context.Context) error                               = (*holdfast.Runtime).Close
	_ func(*holdfast.Runtime, context.Context) error                               = (*holdfast.Runtime).Shutdown
	_ func(*holdfast.Runtime) string                                               = (*holdfast.Runtime).ID
	_ func(*holdfast.Runtime) *actor.ActorSystem                                   = (*holdfast.Runtime).System
	_ func(*holdfast.Runtime) holdfast.Owner                                       = (*holdfast.Runtime).NewOwner
	_ func(*holdfast.Runtime, string) *holdfast.Lock                               = (*holdfast.Runtime).Lock
	_ func(*holdfast.Runtime, string) *holdfast.Lock                               = (*holdfast.Runtime).FairLock
	_ func(*holdfast.Runtime, string) *holdfast.Lock                               = (*holdfast.Runtime).FencedLock
	_ func(*holdfast.Runtime, string) *holdfast.Lock                               = (*holdfast.Runtime).SpinLock
	_ func(*holdfast.Runtime, string) *holdfast.RWLock                             = (*holdfast.Runtime).RWLock
	_ func(*holdfast.RWLock) *holdfast.Lock                                        = (*holdfast.RWLock).Read
	_ func(*holdfast.RWLock) *holdfast.Lock                                        = (*holdfast.RWLock).Write
	_ func(*holdfast.Runtime, string) *holdfast.PermitSemaphore                    = (*holdfast.Runtime).PermitSemaphore
	_ func(holdfast.Backoff) holdfast.AcquireOption                                = holdfast.WithBackoff
	_ func(*holdfast.Lock) string                                                  = (*holdfast.Lock).Name
	_ func(*holdfast.Lock, context.Context) (holdfast.State, error)                = (*holdfast.Lock).Inspect
	_ func(*holdfast.Lock, context.Context) (bool, error)                          = (*holdfast.Lock).ForceRelease
	_ func(*holdfast.Lock) *actor.PID                                              = (*holdfast.Lock).PID
	_ func(...*holdfast.Lock) *holdfast.MultiLock                                  = holdfast.Multi
	_ func(...*holdfast.Lock) *holdfast.MultiLock                                  = holdfast.Red
	_ func(time.Duration) holdfast.AcquireOption                                   = holdfast.WithLease
	_ func(time.Duration) holdfast.AcquireOption                                   = holdfast.WithRenewedLease
	_ func(time.Duration) holdfast.AcquireOption                                   = holdfast.WithAtMost
	_ func(time.Duration) holdfast.AcquireOption                                   = holdfast.WithAtLeast
	_ func(time.Duration) holdfast.AcquireOption                                   = holdfast.WithWait
	_ func(holdfast.Owner) holdfast.AcquireOption                                  = holdfast.WithOwner
	_ func(holdfast.Owner) string                                                  = holdfast.Owner.String
	_ func(context.Context, holdfast.Owner) context.Context                        = holdfast.ContextWithOwner
	_ func(*holdfast.Lease, context.Context) error                                 = (*holdfast.Lease).Release
	_ func(*holdfast.Lease, context.Context, time.Duration) error                  = (*holdfast.Lease).Extend
	_ func(*holdfast.Lease) <-chan struct{}                                        = (*holdfast.Lease).Done
	_ func(*holdfast.Lease) error                                                  = (*holdfast.Lease).Err
	_ func(*holdfast.Lease) bool                                                   = (*holdfast.Lease).Valid
	_ func(*holdfast.Lease) time.Time                                              = (*holdfast.Lease).ExpiresAt
	_ func(*holdfast.Lease, context.Context) (context.Context, context.CancelFunc) = (*holdfast.Lease).Context
	_ func(*holdfast.Lease) int64                                                  = (*holdfast.Lease).Token
	_ func(*holdfast.Lease) string                                                 = (*holdfast.Lease).ID
	_ func(*holdfast.Lease) string                                                 = (*holdfast.Lease).Name
	_ func(context.Context) *holdfast.Lease                                        = holdfast.LeaseFromContext
	_ func(*holdfast.Lease) []*holdfast.Lease                                      = (*holdfast.Lease).Members
	_ func(*holdfast.Pending) <-chan struct{}                                      = (*holdfast.Pending).Done
	_ func(*holdfast.Pending) (*holdfast.Lease, error)                             = (*holdfast.Pending).Lease
	_ func(*holdfast.Pending)                                                      = (*holdfast.Pending).Cancel
	_ func(*holdfast.BusyError) string                                             = (*holdfast.BusyError).Error

	_ func(*holdfast.Runtime, string) *holdfast.Semaphore                = (*holdfast.Runtime).Semaphore
	_ func(*holdfast.Semaphore, context.Context, int) (bool, error)      = (*holdfast.Semaphore).TrySetPermits
	_ func(*holdfast.Semaphore, context.Context, int) error              = (*holdfast.Semaphore).Acquire
	_ func(*holdfast.Semaphore, context.Context, int) error              = (*holdfast.Semaphore).TryAcquire
	_ func(*holdfast.Semaphore, context.Context, int) error              = (*holdfast.Semaphore).Release
	_ func(*holdfast.Semaphore, context.Context, int) error              = (*holdfast.Semaphore).AddPermits
	_ func(*holdfast.Semaphore, context.Context) (int, error)            = (*holdfast.Semaphore).Drain
	_ func(*holdfast.Semaphore, context.Context) (int, error)            = (*holdfast.Semaphore).Available
	_ func(*holdfast.Semaphore, context.Context) (bool, error)           = (*holdfast.Semaphore).Delete
	_ func(*holdfast.Runtime, string) *holdfast.CountDownLatch           = (*holdfast.Runtime).CountDownLatch
	_ func(*holdfast.CountDownLatch, context.Context, int) (bool, error) = (*holdfast.CountDownLatch).TrySetCount
	_ func(*holdfast.CountDownLatch, context.Context) error              = (*holdfast.CountDownLatch).CountDown
	_ func(*holdfast.CountDownLatch, context.Context) (int, error)       = (*holdfast.CountDownLatch).Count
	_ func(*holdfast.CountDownLatch, context.Context) error              = (*holdfast.CountDownLatch).Wait
	_ func(*holdfast.CountDownLatch, context.Context) (bool, error)      = (*holdfast.CountDownLatch).Delete

	_ func(*holdfast.Lock, context.Context, ...holdfast.AcquireOption) (*holdfast.Lease, error) = (*holdfast.Lock).Acquire
	_ func(*holdfast.Lock, context.Context, ...holdfast.AcquireOption) (*holdfast.Lease, error) = (*holdfast.Lock).TryAcquire
	_ func(*holdfast.Lock, context.Context, ...holdfast.AcquireOption) *holdfast.Pending        = (*holdfast.Lock).AcquireAsync

	_ func(*holdfast.Lock, context.Context, func(context.Context) error, ...holdfast.AcquireOption) error = (*holdfast.Lock).Do
	_ func(*holdfast.Lock, context.Context, func(context.Context) error, ...holdfast.AcquireOption) error = (*holdfast.Lock).TryDo

	_ func(*holdfast.MultiLock, context.Context, ...holdfast.AcquireOption) (*holdfast.Lease, error)                 = (*holdfast.MultiLock).Acquire
	_ func(*holdfast.MultiLock, context.Context, ...holdfast.AcquireOption) (*holdfast.Lease, error)                 = (*holdfast.MultiLock).TryAcquire
	_ func(*holdfast.MultiLock, context.Context, func(context.Context) error, ...holdfast.AcquireOption) error       = (*holdfast.MultiLock).Do
	_ func(*holdfast.MultiLock, context.Context, func(context.Context) error, ...holdfast.AcquireOption) error       = (*holdfast.MultiLock).TryDo
	_ func(*holdfast.PermitSemaphore, context.Context, func(context.Context) error, ...holdfast.AcquireOption) error = (*holdfast.PermitSemaphore).Do
	_ func(*holdfast.PermitSemaphore, context.Context, func(context.Context) error, ...holdfast.AcquireOption) error = (*holdfast.PermitSemaphore).TryDo

	_ func(testing.TB) *holdfasttest.Server                             = holdfasttest.New
	_ func(*holdfasttest.Server) redis.UniversalClient                  = (*holdfasttest.Server).Client
	_ func(*holdfasttest.Server, ...holdfast.Options) *holdfast.Runtime = (*holdfasttest.Server).Runtime
	_ func(*holdfasttest.Server, string) func()                         = (*holdfasttest.Server).HeldElsewhere
	_ func(*holdfasttest.Server, string)                                = (*holdfasttest.Server).Lose
	_ func(*holdfasttest.Server, *holdfast.Runtime)                     = (*holdfasttest.Server).Cut
	_ func(*holdfasttest.Server, *holdfast.Runtime)                     = (*holdfasttest.Server).Heal
	_ func(*holdfasttest.Server, bool)                                  = (*holdfasttest.Server).Restart

	_ func() (*embedded.Server, error)             = embedded.Start
	_ func(*embedded.Server) redis.UniversalClient = (*embedded.Server).Client
	_ func(*embedded.Server) string                = (*embedded.Server).Addr
	_ func(*embedded.Server) error                 = (*embedded.Server).Close

	_ func(*holdfast.PermitSemaphore, context.Context, int) (bool, error) = (*holdfast.PermitSemaphore).TrySetPermits
	_ func(*holdfast.PermitSemaphore, context.Context, int) error         = (*holdfast.PermitSemaphore).SetPermits
	_ func(*holdfast.PermitSemaphore, context.Context, int) error         = (*holdfast.PermitSemaphore).AddPermits
	_ func(*holdfast.PermitSemaphore, context.Context) (int, error)       = (*holdfast.PermitSemaphore).Available
	_ func(*holdfast.PermitSemaphore, context.Context) (int, error)       = (*holdfast.PermitSemaphore).Acquired
	_ func(*holdfast.PermitSemaphore, context.Context) (int, error)       = (*holdfast.PermitSemaphore).Permits
	_ func(*holdfast.PermitSemaphore, context.Context) (bool, error)      = (*holdfast.PermitSemaphore).Delete
	_ func(*holdfast.PermitSemaphore, context.Context, ...string) error   = (*holdfast.PermitSemaphore).ReleaseID

	_ func(*holdfast.Runtime, string, holdfast.ElectionOptions) *holdfast.Election                         = (*holdfast.Runtime).Election
	_ func(*holdfast.Election, context.Context, func(ctx context.Context, term holdfast.Term) error) error = (*holdfast.Election).Run
	_ func(*holdfast.Election, context.Context) error                                                      = (*holdfast.Election).Check
	_ func(*holdfast.Election) bool                                                                        = (*holdfast.Election).IsLeader
	_ func(*holdfast.Election, context.Context) (holdfast.Leader, error)                                   = (*holdfast.Election).Leader
	_ func(*holdfast.Election, context.Context) iter.Seq[holdfast.Leader]                                  = (*holdfast.Election).Watch
	_ func(*holdfast.Election)                                                                             = (*holdfast.Election).Resign

	_ = holdfast.ElectionOptions{Value: "", Lease: time.Duration(0), OnLeader: (func(holdfast.Leader))(nil)}
	_ = holdfast.Term{Token: int64(0), Lease: (*holdfast.Lease)(nil)}
	_ = holdfast.Leader{Value: "", Runtime: "", Token: int64(0), Since: time.Time{}}

	_ func(string) string = holdfast.EscapeName
	_ func(string) string = holdfast.HostProcess

	_ func(context.Context, redis.UniversalClient, string) (inspect.Entry, error)                       = inspect.Look
	_ func(context.Context, redis.UniversalClient, inspect.ListOptions) iter.Seq2[inspect.Entry, error] = inspect.List
	_ func(context.Context, redis.UniversalClient) ([]inspect.Process, error)                           = inspect.Processes
	_ func(context.Context, redis.UniversalClient, string) (bool, error)                                = inspect.Free

	_ = inspect.Entry{
		Kind: holdfast.KindLock, Name: "", Key: "", Mode: "",
		Holders: []inspect.Holder{{ID: "", Holds: int(0), TTL: time.Duration(0), Process: inspect.Process{}}},
		Queue:   []string(nil), TTL: time.Duration(0), Waiting: int(0), Token: int64(0), Permits: int(0), Available: int(0), Count: int(0),
	}
	_ = inspect.Process{Runtime: "", Name: "", Version: "", Since: time.Time{}}
	_ = inspect.ListOptions{Pattern: "", Contended: false, Batch: int(0)}

	_ func(*holdfast.Runtime) holdfast.Stats               = (*holdfast.Runtime).Stats
	_ func(*holdfast.Runtime) iter.Seq[holdfast.HeldLease] = (*holdfast.Runtime).Held

	_ = holdfast.Options{SlowWait: time.Duration(0), Linger: time.Duration(0), Trace: (*holdfast.Trace)(nil)}
	_ = holdfast.Trace{
		Acquiring: func(context.Context, holdfast.Acquiring) func(holdfast.Acquired) { return nil },
		Waiting:   func(context.Context, holdfast.Waiting) {}, Released: func(holdfast.Released) {}, Lost: func(holdfast.Lost) {},
		Renewed: func(holdfast.Renewed) {}, Exchanged: func(holdfast.Exchanged) {}, Leader: func(holdfast.LeaderChange) {},
	}
	_ = holdfast.LeaderChange{Name: "", Leading: false, Token: int64(0)}
	_ = holdfast.Acquiring{Kind: holdfast.KindLock, Name: "", Try: false}
	_ = holdfast.Acquired{
		Kind: holdfast.KindLock, Name: "", ID: "", Waited: time.Duration(0), Local: false, Attempts: int(0), Token: int64(0), Err: error(nil),
	}
	_ = holdfast.Waiting{Kind: holdfast.KindLock, Name: "", Waited: time.Duration(0), Holder: "", Local: false, Ahead: int(0)}
	_ = holdfast.Released{Kind: holdfast.KindLock, Name: "", ID: "", Held: time.Duration(0), Err: error(nil)}
	_ = holdfast.Lost{
		Kind: holdfast.KindLock, Name: "", ID: "", Held: time.Duration(0), Reason: holdfast.LossReason(holdfast.LossClosed), Fixed: false,
	}
	_ = holdfast.Renewed{Leases: int(0), Gone: int(0), Margin: time.Duration(0), Took: time.Duration(0), Err: error(nil)}
	_ = holdfast.Exchanged{Scripts: int(0), Locks: int(0), Took: time.Duration(0), Err: error(nil)}
	_ = holdfast.HeldLease{
		Kind: holdfast.KindLock, Name: "", ID: "", Owner: "", Since: time.Time{}, ExpiresAt: time.Time{}, Waiting: int(0),
	}
	_ = holdfast.Stats{
		Held: int(0), Waiting: int(0), Lingering: int(0), Actors: int(0),
		Acquired: uint64(0), HandedOn: uint64(0), Refused: uint64(0), Released: uint64(0), Lost: uint64(0), Renewals: uint64(0),
		RenewFailures: uint64(0), Exchanges: uint64(0), Scripts: uint64(0), Reconnects: uint64(0),
	}

	_ func(redis.UniversalClient, web.Options) http.Handler = web.Handler

	_ = web.Options{AllowFree: false}

	_ protocol.Kind = holdfast.Kind("")
	_               = []holdfast.Kind{
		holdfast.KindLock, holdfast.KindFair, holdfast.KindFenced, holdfast.KindSpin, holdfast.KindRead, holdfast.KindWrite,
		holdfast.KindPermitSemaphore, holdfast.KindSemaphore, holdfast.KindLatch,
	}

	_ holdfast.PubSubMode = holdfast.PubSubAuto
	_ holdfast.PubSubMode = holdfast.PubSubPlain
	_ holdfast.PubSubMode = holdfast.PubSubSharded

	_ = []error{
		holdfast.ErrNotAcquired, holdfast.ErrNotHeld, holdfast.ErrLeaseLost, holdfast.ErrClosed, holdfast.ErrTooManyWaiters,
		holdfast.ErrNotReplicated, holdfast.ErrUpgrade, holdfast.ErrForeignKey, holdfast.ErrInvalid,
		holdfast.ErrResign, holdfast.ErrNoLeader,
	}
	_ = map[holdfast.Owner]bool{{}: true} // an Owner is comparable; the zero Owner means none

	_ func(*holdfast.PermitSemaphore, context.Context, ...holdfast.AcquireOption) (*holdfast.Lease, error) = (*holdfast.PermitSemaphore).Acquire
	_ func(*holdfast.PermitSemaphore, context.Context, ...holdfast.AcquireOption) (*holdfast.Lease, error) = (*holdfast.PermitSemaphore).TryAcquire

	_ = holdfast.Backoff{Initial: time.Duration(0), Max: time.Duration(0), Multiplier: float64(0)}

	_ = holdfast.Options{
		Lease: time.Duration(0), RenewBatch: int(0), FairWait: time.Duration(0),
		Handoff:    holdfast.Handoff{Max: int(0), For: time.Duration(0)},
		MaxWaiters: int(0), AckReplicas: int(0), AckTimeout: time.Duration(0), PubSub: holdfast.PubSubAuto,
		NameMapper: (func(string) string)(nil), Logger: (*slog.Logger)(nil), OnEvent: (func(holdfast.Event))(nil),
		Migrating: false, Process: "",
		System: (*actor.ActorSystem)(nil),
	}
	_ = holdfast.State{
		Held: false, Holders: []holdfast.Holder{{ID: "", Holds: int(0)}}, Local: []string(nil), TTL: time.Duration(0), Mode: "",
		Queue: []string(nil), Token: int64(0), Waiting: int(0),
	}
	_ = holdfast.BusyError{Name: "", Holder: "", TTL: time.Duration(0), Local: false}

	_ error = &holdfast.CheckError{Findings: []holdfast.Finding{{What: "", Why: "", Remedy: ""}}}

	_ protocol.LossReason = holdfast.LossReason("")
	_                     = []holdfast.LossReason{
		holdfast.LossExpired, holdfast.LossAtMost, holdfast.LossDeleted, holdfast.LossForceReleased, holdfast.LossReleasedByID, holdfast.LossPanicked,
	}
	_ holdfast.LossReason = holdfast.LeaseLost{}.Reason

	_ = []holdfast.Event{
		holdfast.LeaseLost{}, holdfast.RenewFailed{}, holdfast.Reconnected{}, holdfast.QueueLost{}, holdfast.ActorPanicked{},
		holdfast.RequestDropped{}, holdfast.SubscribeRefused{}, holdfast.CallbackPanicked{}, holdfast.EventsDropped{}, holdfast.Unconfirmed{},
		holdfast.LeaseLeaked{Name: "", Kind: holdfast.KindLock, ID: "", Since: time.Time{}},
	}
	_ = []any{
		protocol.Acquire{}, protocol.Cancel{}, protocol.Release{}, protocol.Renew{}, protocol.Inspect{},
		protocol.Granted{}, protocol.Refused{}, protocol.Released{}, protocol.Renewed{}, protocol.Inspected{}, protocol.Lost{},
	}
)

// TestAPI_KindsAreSpelled: the strings of the kinds are part of the contract, too.
func TestAPI_KindsAreSpelled(t *testing.T) {
	t.Parallel()
	for kind, word := range map[holdfast.Kind]string{
		holdfast.KindLock: "lock", holdfast.KindFair: "fair lock", holdfast.KindFenced: "fenced lock", holdfast.KindSpin: "spin lock",
		holdfast.KindRead: "read lock", holdfast.KindWrite: "write lock", holdfast.KindPermitSemaphore: "permit semaphore",
		holdfast.KindSemaphore: "semaphore", holdfast.KindLatch: "latch",
	} {
		assert.Equal(t, word, string(kind))
	}
}
