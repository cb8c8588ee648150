package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/gateway"
	"github.com/holdfast-go/holdfast/actors/pubsub"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// end is how an Engine ends.
type end struct {
	draining atomic.Bool   // Shutdown has been called
	begun    chan struct{} // Close has been called
	once     sync.Once
	abort    chan struct{}
	aborted  sync.Once

	drained [wait.Aborting]chan struct{} // by stage: nothing is left that it waits for
	undone  [wait.Aborting]atomic.Int32  // by stage: routers that have something left

	mu  sync.Mutex
	cut []string // names of the locks whose holders were cut off: Close came before the last of them had released
}

func (e *end) init() {
	e.begun, e.abort = make(chan struct{}), make(chan struct{})
	for i := range e.drained {
		e.drained[i] = make(chan struct{})
		e.undone[i].Store(routerCount)
	}
}

// routerDrained counts the routers that have nothing left that a stage waits for.
func (e *Engine) routerDrained(at wait.Stage) {
	if e.end.undone[at].Add(-1) == 0 {
		close(e.end.drained[at])
	}
}

// cutOff notes that Close ends what is held of a lock although a Shutdown waits for its release.
func (e *Engine) cutOff(lock string) {
	if e.end.draining.Load() {
		e.end.mu.Lock()
		defer e.end.mu.Unlock()
		e.end.cut = append(e.end.cut, lock)
	}
}

// shownCut is how many locks the error of a Shutdown names.
const shownCut = 10

// cutNames are the locks whose holders were cut off, for an error; "" if there are none.
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

// Shutdown refuses new acquires, waits until the last lease has ended, and closes. When ctx ends first, it closes all the same.
func (e *Engine) Shutdown(ctx context.Context) error {
	if e.closing.Load() {
		return e.Close(ctx)
	}
	if e.end.draining.CompareAndSwap(false, true) {
		e.root.Send(e.guardian, closeRouter{wait.Draining})
	}
	select {
	case <-e.end.drained[wait.Draining]:
	case <-e.end.begun:
	case <-ctx.Done():
	}
	ended := ctx.Err() // before the runtime was closed, or Close overtook this call
	err := e.Close(ctx)
	if names := e.end.cutNames(); ended != nil && names != "" {
		err = Join(fmt.Errorf("holdfast: shut down: %w; still held: %s", ended, names), err)
	}
	return err
}

// Close refuses new work, answers every waiter and ends every lease with ErrClosed, releases the locks, and returns when nothing
// is left. When ctx ends, it goes on for a moment; then it returns ctx's error, and what could not be released expires. Code of the
// user that does not come back is waited for only for a moment: the error then says what it is. Later calls wait for the same end.
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

func (e *Engine) shutDown() {
	e.root.Send(e.guardian, closeRouter{wait.Closing})
	begun := e.clock.Now()
	unreleased := e.awaitReleases()
	e.cancel()
	var late chan struct{} // closed when what is still on its way to a silent Redis is not waited for any more; nil: never
	if unreleased != nil {
		over, timer := clock.After(e.clock, begun+e.policy.Lease+time.Second-e.clock.Now())
		defer timer.Stop()
		late = over
	}
	e.watchdog.Stop()
	e.checks.Wait()
	e.closeLanes(late)
	done := make(chan struct{})
	e.root.Send(e.subscriber, pubsub.Stop{Done: done})
	await(done, late)
	e.masters.Close()
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
	if unreleased != nil {
		e.left = fmt.Errorf("holdfast: close: %w; what is still held expires with its lease", unreleased)
	}
	close(e.done)
}

// closeLanes stops the gateways, and waits for what is on its way.
func (e *Engine) closeLanes(late chan struct{}) {
	await(e.renewals.Stop(), late)
	for _, l := range e.lanes {
		for _, g := range slices.Compact([]gateway.Gateway{l.acquires, l.gateway}) {
			await(g.Stop(), late)
		}
	}
}

// silentLooks is how often in a row Close must find that Redis was not heard. A process that stands still for a while looks once.
const silentLooks = 4

// awaitReleases returns when everything is released, or when the release of the rest is given up: because Close's context has ended, or
// because Redis has been silent for as long as anybody waits for it, of which the error tells.
func (e *Engine) awaitReleases() (silent error) {
	patience := max(e.policy.Patience, rpc.Window(e.policy.Lease)+500*time.Millisecond) // an orphan may be asked for once per window
	heard := e.sender.Heard()
	for looks := 0; looks < silentLooks; looks++ {
		over, timer := clock.After(e.clock, patience/silentLooks)
		select {
		case <-e.end.drained[wait.Closing]:
			timer.Stop()
			return nil
		case <-e.end.abort:
			timer.Stop()
			e.giveUp()
			return nil
		case <-over:
		}
		if now := e.sender.Heard(); now != heard {
			heard, looks = now, -1
		}
	}
	e.giveUp()
	return e.why("")
}

func await(done <-chan struct{}, late chan struct{}) {
	select {
	case <-done:
	case <-late:
	}
}

// giveUp ends what still waits for Redis.
func (e *Engine) giveUp() {
	e.root.Send(e.guardian, closeRouter{wait.Aborting})
	<-e.end.drained[wait.Closing]
}

// closeGrace is how long Close waits for code of the user that does not come back.
const closeGrace = 5 * time.Second
