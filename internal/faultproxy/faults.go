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
	hold    chan struct{} // while nothing may pass; closed at its end; nil without
	dropped int
	twice   int
}

// order is what is to be done with the replies to the next left requests that match.
type order struct {
	fate  fate
	left  int
	match []func(request []byte) bool
}

// fate is what becomes of one reply.
type fate int

const (
	arrives  fate = iota
	dropped       // lost, and its connection with it
	broken        // only the beginning arrives, then its connection ends
	skipped       // lost, and the next reply comes in its place
	repeated      // arrives, and once more before the next reply
)

// Containing matches requests that contain all the texts, byte by byte: a script's SHA, a key, a command as
// the client writes it (go-redis writes them in lower case).
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

// Delay holds back what goes in direction d for the given time, 0 for none. What arrives together is
// delayed together; what arrives meanwhile is delayed after it.
func (p *Proxy) Delay(d Direction, by time.Duration) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.delay[d] = by
}

// DropReplies loses the replies to the next n requests, of those that all of match accept. Each such
// request is executed; then its connection passes no reply any more and is cut as soon as the server has
// replied to everything that was sent on it. Without match the requests by which a client sets up a
// connection count too. Requests that subscribe are not counted.
//
// A second call adds to the first. Of several orders the oldest that matches takes a request.
func (p *Proxy) DropReplies(n int, match ...func(request []byte) bool) { p.order(dropped, n, match) }

// BreakReplies passes only the beginning of the replies to the next n requests that match: at least one byte
// and never all. It ends their connections there. It counts orders as DropReplies does.
func (p *Proxy) BreakReplies(n int, match ...func(request []byte) bool) { p.order(broken, n, match) }

// SkipReplies loses the replies to the next n requests that match, and nothing else: from there on each
// request on their connections gets the reply to a later one. Orders are counted as those of DropReplies.
func (p *Proxy) SkipReplies(n int, match ...func(request []byte) bool) { p.order(skipped, n, match) }

// RepeatReplies passes the replies to the next n requests that match twice, the second time right before the
// next reply: from there on each request on their connections gets the reply to an earlier one. Orders are
// counted as those of DropReplies.
func (p *Proxy) RepeatReplies(n int, match ...func(request []byte) bool) { p.order(repeated, n, match) }

func (p *Proxy) order(f fate, n int, match []func(request []byte) bool) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.orders = append(p.faults.orders, &order{fate: f, left: n, match: match})
}

// SwallowReplies lets requests through and loses all replies and messages, without closing anything, so that
// clients run into their timeouts. Switching it off cuts the connections that are out of step.
func (p *Proxy) SwallowReplies(on bool) {
	p.faults.mu.Lock()
	p.faults.swallow = on
	p.faults.mu.Unlock()
	if !on {
		p.cutAstray()
	}
}

// Blackhole accepts connections and forwards nothing, in no direction. As after a partition, what was sent
// meanwhile arrives when it is switched off, even if the sender has closed its connection since; Cut before
// that loses it.
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

// Refuse closes new connections at once. Those that are open stay.
func (p *Proxy) Refuse(on bool) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.refuse = on
}

// Disturb is one of the faults that networks have, until Heal: a link that breaks, loses replies, is silent in one direction or in both,
// cannot be made again, or is late by delay.
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

// Heal ends all faults. Connections on which replies are missing or too many are cut, the others live on.
func (p *Proxy) Heal() {
	p.Refuse(false)
	p.Delay(ToServer, 0)
	p.Delay(ToClient, 0)
	p.Forget()
	p.SwallowReplies(false)
	p.Blackhole(false)
}

// Forget takes back the orders to drop, break, skip and repeat replies that no request has met yet.
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

// counts are how many replies did not arrive whole, and how many arrived twice.
func (f *faults) counts() (dropped, twice int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped, f.twice
}

// fateOf is what is to become of the reply to request. An order for it is counted off.
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

// swallowing reports whether all replies are to be lost.
func (f *faults) swallowing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.swallow
}
