package actors

import (
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/trace"
	"github.com/holdfast-go/holdfast/scripts"
)

// heldQuery asks the actor of a name for its leases.
type heldQuery struct{ answer chan Held }

// Held has the leases of one name in one family of kinds, and the number of its waiters.
type Held struct {
	Holds   []*lease.Hold
	Waiting int // acquires that wait
}

func (a *shell) held() Held {
	holds, waiting := a.machine.Held()
	return Held{holds, waiting}
}

// leased reports whether there is a local lease.
func (a *shell) leased() bool {
	holds, _ := a.machine.Held()
	return slices.ContainsFunc(holds, func(h *lease.Hold) bool { return h.Until() != 0 })
}

// heldOf asks an actor for its leases. It returns when the actor has handled all messages that were sent to it before.
func (e *Engine) heldOf(key memberKey) Held {
	m := e.registry.shardOf(key.raw).find(key)
	if m == nil {
		return Held{}
	}
	answer := make(chan Held, 1)
	m.Send(routed{heldQuery{answer}})
	return <-answer
}

// awaitHolders returns when the actors of a name have handled all messages that were sent to them before, in all families.
func (e *Engine) awaitHolders(a *lease.Address) {
	for family := range scripts.FamilyCount {
		e.heldOf(memberKey{family, a.Raw})
	}
}

// Held asks all actors that are not idle for their leases, shard by shard. Each of these actors answers, because the registry counts the query: an
// actor keeps its name while a counted message is on its way to it.
func (e *Engine) Held() iter.Seq[Held] {
	return func(yield func(Held) bool) {
		for i := range e.registry.shards {
			busy := e.registry.shards[i].busy()
			answers := make(chan Held, len(busy))
			for _, m := range busy {
				m.Send(routed{heldQuery{answers}})
			}
			for range busy {
				if !yield(<-answers) {
					return
				}
			}
		}
	}
}

// Stats returns the counters, and the number of names that have an actor.
func (e *Engine) Stats() trace.Stats {
	s := e.recorder.Stats()
	for i := range e.registry.shards {
		s.Actors += e.registry.shards[i].count()
	}
	return s
}
