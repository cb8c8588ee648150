package actors

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast/protocol"
)

// Hold is one local lease. It is embedded in what the user holds, so that an acquire allocates once.
//
// Exactly one side ends it: the holder by claiming it for a release, or the lock actor by losing it. A claimed hold keeps the
// lock actor alive until the release message has arrived, which is why that message may go straight to the lock actor.
type Hold struct {
	// set by the lock actor before the grant is delivered
	grant     *Grant
	serial    uint64
	token     int64 // fencing token; 0: none
	owner     protocol.Owner
	requester *actor.PID // of the actor message API; nil for a goroutine

	state atomic.Uint32

	mu    sync.Mutex // guards what follows; never held while calling out
	done  chan struct{}
	onEnd map[*func(error)]struct{}
	err   error
	why   string // adds to err
}

const (
	holdOpen    = iota // not granted yet, or held
	holdClaimed        // released by its holder
	holdLost
)

// ID is the owner field in Redis.
func (h *Hold) ID() string { return h.grant.id }

// Token is the fencing token, 0 if the kind has none.
func (h *Hold) Token() int64 { return h.token }

// Address is the lock that is held.
func (h *Hold) Address() *Address { return h.grant.address }

// Until is the local deadline, as an instant of the runtime's clock; 0: the hold has ended. Its grant may go on, with the next holder.
func (h *Hold) Until() time.Duration {
	if h.state.Load() != holdOpen {
		return 0
	}
	return h.grant.until()
}

// Valid reports whether the lease is held at this instant.
func (h *Hold) Valid(now time.Duration) bool {
	return h.state.Load() == holdOpen && h.grant.left(now) > 0
}

// Fixed reports whether the lease was asked for with a fixed length.
func (h *Hold) Fixed() bool { return !h.grant.watched }

// Done is closed when the hold has ended.
func (h *Hold) Done() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done == nil {
		h.done = make(chan struct{})
		if h.err != nil {
			close(h.done)
		}
	}
	return h.done
}

// Err is nil while held, then why the hold ended.
func (h *Hold) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// ending is Err with the reason.
func (h *Hold) ending() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why == "" {
		return h.err
	}
	return fmt.Errorf("%w: %s", h.err, h.why)
}

// OnEnd has f called once with the reason when the hold ends, at once if it has ended; f must not block.
// forget takes that back.
func (h *Hold) OnEnd(f func(error)) (forget func()) {
	h.mu.Lock()
	err := h.err
	if err == nil {
		if h.onEnd == nil {
			h.onEnd = map[*func(error)]struct{}{}
		}
		h.onEnd[&f] = struct{}{}
	}
	h.mu.Unlock()
	if err != nil {
		f(err)
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.onEnd, &f)
	}
}

// claim is the holder's way to end the hold; false when it has ended before.
func (h *Hold) claim() bool {
	if !h.state.CompareAndSwap(holdOpen, holdClaimed) {
		return false
	}
	h.finish(protocol.ErrNotHeld, "it was released before")
	return true
}

// lose is the lock actor's way to end the hold; false when its holder has claimed it and the release is on its way.
func (h *Hold) lose(err error, why string) bool {
	if !h.state.CompareAndSwap(holdOpen, holdLost) {
		return false
	}
	h.finish(err, why)
	return true
}

func (h *Hold) finish(err error, why string) {
	h.mu.Lock()
	h.err, h.why = err, why
	onEnd := h.onEnd
	h.onEnd = nil
	if h.done != nil {
		close(h.done)
	}
	h.mu.Unlock()
	for f := range onEnd {
		shield(func() { (*f)(err) })
	}
}

// shield runs what may come upon code of the user, a context of its own making, and lives with its panic.
func shield(f func()) {
	defer func() { _ = recover() }()
	f()
}
