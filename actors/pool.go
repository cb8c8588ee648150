package actors

import (
	"sync"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
)

// requestPool keeps answered requests of goroutines. Each engine has its own: a channel must not leave the testing/synctest
// bubble that it was made in.
type requestPool struct{ pool sync.Pool }

// take is a request for a goroutine.
func (p *requestPool) take(do wait.Operation, address *lease.Address) *wait.Request {
	r, _ := p.pool.Get().(*wait.Request)
	if r == nil {
		r = &wait.Request{Answered: make(chan struct{}, 1)}
	}
	r.Do, r.Address = do, address
	return r
}

// put takes an answered request back. One that a cancel may still name must not come back: it is left to the collector.
func (p *requestPool) put(r *wait.Request) {
	*r = wait.Request{Answered: r.Answered}
	p.pool.Put(r)
}
