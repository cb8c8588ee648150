package faultproxy

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"time"
)

// faults are the switches of a proxy, shared by all its connections.
type faults struct {
	mu      sync.Mutex
	delay   [2]time.Duration // by Direction
	orders  []*order
	swallow bool
	refuse  bool
	hold    chan struct{} // not nil while nothing may pass; closed when traffic may pass again
	dropped int
	twice   int
}

// order says what happens to the replies to the next `left` requests that match.
type order struct {
	fate  fate
	left  int
	match []func(request []byte) bool
}

// fate is what happens to one reply.
type fate int

const (
	arrives  fate = iota
	dropped       // lost; its connection is cut
	broken        // only the beginning arrives, then its connection ends
	skipped       // lost; the next reply takes its place
	repeated      // arrives twice, the second time right before the next reply
)

// Containing returns a function that accepts requests that contain all the texts, byte by byte. A text may
// be a script's SHA, a key, or a command as the client writes it (go-redis writes commands in lower case).
func Containing(texts ...string) func(request []byte) bool {
	return func(request []byte) bool {
		for _, text := range texts {
			if !bytes.Contains(request, []byte(text)) {
				return false
			}
		}
		return true
	}
}

// Delay holds back everything that goes in direction d for the duration `by`. Delay(d, 0) ends the delay.
// Frames that arrive together are delayed together. The delay of frames that arrive later begins when the
// earlier frames have been passed on.
func (p *Proxy) Delay(d Direction, by time.Duration) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.delay[d] = by
}

// DropReplies loses the replies to the next n requests that match. These requests are executed. After a lost reply, the connection passes no more
// replies, and the proxy cuts it as soon as the server has replied to everything that was sent on it.
//
// A request matches if all functions in match accept it. So if match is empty, every request matches, including those by which a client sets up a
// connection. There is one exception: a request that subscribes does not match, and no later request on its connection matches.
//
// A further call adds to the earlier ones. If a request matches several calls, it counts for the oldest of them only.
func (p *Proxy) DropReplies(n int, match ...func(request []byte) bool) { p.order(dropped, n, match) }

// BreakReplies passes only the beginning of each reply to the next n requests that match: at least one
// byte, but not all. Then it closes the connection of that reply. Requests are counted as for DropReplies.
func (p *Proxy) BreakReplies(n int, match ...func(request []byte) bool) { p.order(broken, n, match) }

// SkipReplies loses the replies to the next n requests that match, but keeps their connections open. From
// then on each request on such a connection gets the reply to a later request. Requests are counted as for
// DropReplies.
func (p *Proxy) SkipReplies(n int, match ...func(request []byte) bool) { p.order(skipped, n, match) }

// RepeatReplies passes each reply to the next n requests that match, and passes it again right before the
// next reply. From then on each request on such a connection gets the reply to an earlier request.
// Requests are counted as for DropReplies.
func (p *Proxy) RepeatReplies(n int, match ...func(request []byte) bool) { p.order(repeated, n, match) }

func (p *Proxy) order(f fate, n int, match []func(request []byte) bool) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.orders = append(p.faults.orders, &order{fate: f, left: n, match: match})
}

// SwallowReplies lets requests through but loses all replies and messages. It closes nothing, so clients
// run into their timeouts. SwallowReplies(false) ends this, and cuts the connections that lack a reply.
func (p *Proxy) SwallowReplies(on bool) {
	p.faults.mu.Lock()
	p.faults.swallow = on
	p.faults.mu.Unlock()
	if !on {
		p.cutAstray()
	}
}

// Blackhole accepts connections and forwards nothing in either direction. When the fault is switched off, the proxy delivers the data that was sent
// meanwhile, as happens after a partition. It delivers the data even if the sender has closed the connection by then. If Cut is called while the fault
// is on, the data is lost.
func (p *Proxy) Blackhole(on bool) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	switch {
	case on && p.faults.hold == nil:
		p.faults.hold = make(chan struct{})
	case !on && p.faults.hold != nil:
		close(p.faults.hold)
		p.faults.hold = nil
	}
}

// Refuse closes new connections at once. Open connections stay.
func (p *Proxy) Refuse(on bool) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.refuse = on
}

// Disturb injects one random network fault: cut connections, lost replies, silence in one direction or in
// both, refused connections, or a delay. Heal ends the fault.
func (p *Proxy) Disturb(random *rand.Rand, delay time.Duration) {
	switch random.IntN(6) {
	case 0:
		p.Cut()
	case 1:
		p.DropReplies(1 + random.IntN(3))
	case 2:
		p.SwallowReplies(true)
	case 3:
		p.Blackhole(true)
	case 4:
		p.Refuse(true)
		p.Cut()
	case 5:
		p.Delay(Direction(random.IntN(2)), delay)
	}
}

// Heal ends all faults. It cuts connections on which replies are missing or repeated; the others stay.
func (p *Proxy) Heal() {
	p.Refuse(false)
	p.Delay(ToServer, 0)
	p.Delay(ToClient, 0)
	p.Forget()
	p.SwallowReplies(false)
	p.Blackhole(false)
}

// Forget cancels the orders that no request has used up yet, whether they drop, break, skip or repeat
// replies.
func (p *Proxy) Forget() {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.orders = nil
}

func (f *faults) refuses() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refuse
}

func (f *faults) delayOf(d Direction) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.delay[d]
}

func (f *faults) holding() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hold
}

// counts returns how many replies did not arrive whole, and how many arrived twice.
func (f *faults) counts() (dropped, twice int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped, f.twice
}

// fateOf returns the fate of the reply to request. The oldest order that matches the request and has left > 0 decides. Its `left` falls by one.
func (f *faults) fateOf(request []byte) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.orders {
		if o.left > 0 && o.matches(request) {
			o.left--
			return o.fate
		}
	}
	return arrives
}

func (o *order) matches(request []byte) bool {
	for _, match := range o.match {
		if !match(request) {
			return false
		}
	}
	return true
}

func (f *faults) count(what fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch what {
	case arrives:
	case repeated:
		f.twice++
	default:
		f.dropped++
	}
}

// swallowing reports whether all replies are being lost.
func (f *faults) swallowing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.swallow
}
