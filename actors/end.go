package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/gateway"
	"github.com/holdfast-go/holdfast/actors/pubsub"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// end is the state of a Shutdown or Close.
type end struct {
	draining atomic.Bool   // Shutdown was called
	begun    chan struct{} // closed when Close is called
	once     sync.Once
	abort    chan struct{}
	aborted  sync.Once

	mu      sync.Mutex
	cut     []string // names of the locks that Close took from their holders during a Shutdown
	refusal error    // why Redis has refused to release a lock, or nil
}

func (e *end) init() {
	e.begun, e.abort = make(chan struct{}), make(chan struct{})
}

// cutOff notes that Close takes a lock from its holders, because the error of a Shutdown names the lock. If there is no Shutdown, cutOff does
// nothing.
func (e *Engine) cutOff(lock string) {
	if e.end.draining.Load() {
		e.end.mu.Lock()
		defer e.end.mu.Unlock()
		e.end.cut = append(e.end.cut, lock)
	}
}

// leave notes that Redis has refused to release a lock. The error of Close names the first such lock.
func (e *Engine) leave(lock string, refusal error) {
	e.end.mu.Lock()
	defer e.end.mu.Unlock()
	if e.end.refusal == nil {
		e.end.refusal = fmt.Errorf("release %q: %w", lock, refusal)
	}
}

// refused returns the first refusal of Redis to release a lock, or nil if Redis has refused none.
func (e *end) refused() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refusal
}

// shownCut is the maximum number of locks that the error of a Shutdown names.
const shownCut = 10

// cutNames returns the part of Shutdown's error that names the locks that Close took from their holders. It returns "" if there are none.
func (e *end) cutNames() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.Sort(e.cut)
	names := slices.Compact(slices.Clone(e.cut))
	more := ""
	if n := len(names) - shownCut; n > 0 {
		names, more = names[:shownCut], fmt.Sprintf(" and %d more", n)
	}
	for i, name := range names {
		names[i] = strconv.Quote(name)
	}
	return strings.Join(names, ", ") + more
}

// Shutdown refuses new and waiting acquires, except re-entries by an owner that holds the lock. It waits until the last lease has ended, and then
// closes the engine. If ctx ends first, Shutdown closes the engine at once, and returns an error that names up to shownCut of the locks that were
// still held.
func (e *Engine) Shutdown(ctx context.Context) error {
	if e.closing.Load() {
		return e.Close(ctx)
	}
	if e.end.draining.CompareAndSwap(false, true) {
		e.registry.enter(wait.Draining)
	}
	select {
	case <-e.registry.drained.zero:
	case <-e.end.begun:
	case <-ctx.Done():
	}
	ended := ctx.Err() // read now, because ctx may end during Close; nil if the leases ended in time or another Close came first
	err := e.Close(ctx)
	if names := e.end.cutNames(); ended != nil && names != "" {
		err = Join(fmt.Errorf("holdfast: shut down: %w; still held: %s", ended, names), err)
	}
	return err
}

// Close refuses new requests and answers every waiter with ErrClosed. It ends every lease, also with ErrClosed, and releases the locks. Close
// returns when all parts of the engine have ended.
//
// If ctx ends first, Close waits for releaseGrace longer. Then it gives up and returns an error that wraps ctx.Err(). The locks that have not been
// released by then expire. A function of the user (for example OnEvent or a hook of the client) may fail to return. Close waits for such a function
// for closeGrace or longer, and then returns an error that says what may hang. A later call of Close waits for the same shutdown. If locks were left
// to expire, the error of every call says so.
func (e *Engine) Close(ctx context.Context) error {
	e.door.Lock()
	e.closing.Store(true)
	e.door.Unlock()
	e.end.once.Do(func() {
		close(e.end.begun)
		go e.shutDown()
	})
	select {
	case <-e.done:
		return e.left
	case <-ctx.Done():
	}
	over, timer := clock.After(e.clock, releaseGrace)
	defer timer.Stop()
	select {
	case <-e.done:
		return e.left
	case <-over:
		e.end.aborted.Do(func() { close(e.end.abort) })
		return fmt.Errorf("holdfast: close: %w; what is still held expires with its lease", ctx.Err())
	}
}

// beginBackground begins something that Close waits for, and that must call e.background.Done at its end. It returns false if the engine is closing.
func (e *Engine) beginBackground() bool {
	e.door.RLock()
	defer e.door.RUnlock()
	if e.closing.Load() {
		return false
	}
	e.background.Add(1)
	return true
}

// Closing returns a channel that is closed when Close is called.
func (e *Engine) Closing() <-chan struct{} { return e.end.begun }

// shutDown ends the parts of the engine, each one after the parts that need it. First the locks are released, which needs the gateways and the
// subscriber. The watchdog stops before the gateways, because the watchdog sends renewals to a gateway. The workers stop after all actors, because
// the actors run on the workers. The outbox and the events end last, because all other parts may add to them.
func (e *Engine) shutDown() {
	e.registry.enter(wait.Closing)
	begun, forgotten := e.clock.Now(), e.forgetProcess()
	unreleased := cmp.Or(e.awaitReleases(), e.clientClosed(), e.end.refused())
	await(forgotten, e.end.abort)
	e.cancel()
	late, timer := clock.After(e.clock, max(begun+e.policy.Lease+time.Second-e.clock.Now(), closeGrace)) // when Close stops waiting for calls
	defer timer.Stop()
	e.watchdog.Stop()
	hung := !e.closeLanes(late)
	done := make(chan struct{})
	e.root.Send(e.subscriber, pubsub.Stop{Done: done})
	hung = !await(done, late) || hung
	hung = !await(waited(e.background.Wait), late) || hung
	hung = !await(waited(e.masters.Close), late) || hung
	e.ending.Store(true)
	e.root.Stop(e.guardian)
	<-e.stopped
	e.workers.Stop()
	if e.ownSystem {
		e.system.Shutdown()
	}
	if err := errors.Join(e.outbox.Finish(closeGrace), e.events.Finish(e.clock, closeGrace)); err != nil {
		e.left = fmt.Errorf("holdfast: close: everything is released, but %w", err)
	}
	if hung {
		e.left = errors.Join(e.left, errHung)
	}
	if unreleased != nil {
		e.left = fmt.Errorf("holdfast: close: %w; what is still held expires with its lease", unreleased)
	}
	close(e.done)
}

// errHung is the error of Close if a call to go-redis does not return.
var errHung = errors.New("holdfast: close: everything is released, but a call to Redis has not returned: a hook of the client may hang")

// closeLanes stops the gateways and waits for the calls in flight. It reports whether all of them have returned.
func (e *Engine) closeLanes(late chan struct{}) bool {
	ended := await(e.renewals.Stop(), late)
	for _, l := range e.lanes {
		for _, g := range slices.Compact([]gateway.Gateway{l.acquires, l.gateway}) {
			ended = await(g.Stop(), late) && ended
		}
	}
	return ended
}

// silentLooks is the number of times in a row that Close must look and find no new reply from Redis before it considers Redis silent. One look
// would not be enough: after a suspension of the process, the first look finds no new reply although Redis may be fine.
const silentLooks = 4

// awaitReleases waits until everything is released. It gives up early if Close is aborted, or if Redis is silent for longer than the variable
// patience. The release of an orphan is sent several times, with pauses. During such a pause, Redis may seem silent only because nothing is sent. So
// patience is longer than the pause.
func (e *Engine) awaitReleases() (gaveUp error) {
	patience := max(e.policy.Patience, rpc.Window(e.policy.Lease)+500*time.Millisecond) // an orphan's release is sent once a window
	heard := e.sender.Heard()
	for looks := 0; looks < silentLooks; looks++ {
		over, timer := clock.After(e.clock, patience/silentLooks)
		select {
		case <-e.registry.living.zero:
			timer.Stop()
			return nil
		case <-e.end.abort:
			timer.Stop()
			e.giveUp()
			return errAborted
		case <-over:
		}
		if now := e.sender.Heard(); now != heard {
			heard, looks = now, -1
		}
	}
	e.giveUp()
	return e.why("")
}

// clientClosed returns an error if the latest call failed because the user had closed the client. With a closed client, releases fail at once and
// are not repeated.
func (e *Engine) clientClosed() error {
	if err := e.causes.Last(); errors.Is(err, redis.ErrClosed) {
		return err
	}
	return nil
}

// errAborted is the reason that the error of Close gives if the engine gave up the releases because the context of another call of Close had ended.
var errAborted = errors.New("the context of another call ended before everything was released")

// await waits until one of the two channels is closed, and reports whether that was `done`.
func await(done <-chan struct{}, late chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-late:
		return false
	}
}

// waited calls the given function on a new goroutine, and returns a channel that is closed when the function has returned.
func waited(wait func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	return done
}

// giveUp ends the requests that still wait for Redis.
func (e *Engine) giveUp() {
	e.registry.enter(wait.Aborting)
	<-e.registry.living.zero
}

// closeGrace is the time for which Close waits for a function of the user that does not return. For calls that are still in flight to Redis, Close
// waits equally long, but at least until Options.Lease and one second have passed since Close began.
const closeGrace = 5 * time.Second
