package actors

import (
	"sync"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// requestPool keeps the answered requests of goroutines for reuse. Each engine has its own pool, because a channel must not leave the
// testing/synctest bubble in which it was made.
type requestPool struct{ pool sync.Pool }

// take returns a request for a goroutine.
func (p *requestPool) take(do wait.Operation, address *lease.Address) *wait.Request {
	r, _ := p.pool.Get().(*wait.Request)
	if r == nil {
		r = &wait.Request{Answered: make(chan struct{}, 1)}
	}
	r.Do, r.Address = do, address
	return r
}

// put returns an answered request to the pool. A request that a timer or a context may still cancel must not be put back: the cancel would
// end another caller's request.
func (p *requestPool) put(r *wait.Request) {
	*r = wait.Request{Answered: r.Answered}
	p.pool.Put(r)
}
