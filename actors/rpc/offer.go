package rpc

import "sync/atomic"

// Offer is the offer of a goroutine to send a call: it has made a request, and waits for the answer anyway. If the actor of the lock has a call to
// send while it handles the request, it leaves the call to that goroutine. Waking another goroutine instead would cost more CPU than the call.
//
// The zero value offers nothing.
type Offer struct{ call atomic.Pointer[Call] }

// offered is in an offer for which no call has been left yet.
var offered = new(Call)

// Make begins the offer. The goroutine must call Collect after it has sent the request, and before it waits.
func (o *Offer) Make() { o.call.Store(offered) }

// Leave leaves a call. It fails if nothing is offered, or if a call was left before.
func (o *Offer) Leave(c *Call) bool { return o.call.CompareAndSwap(offered, c) }

// Collect ends the offer, and returns the call that was left; nil: there is none.
func (o *Offer) Collect() *Call {
	if c := o.call.Swap(nil); c != offered {
		return c
	}
	return nil
}
