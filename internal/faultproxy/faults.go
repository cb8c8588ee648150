package faultproxy

import (
	"bytes"
	"sync"
	"time"
)

// faults are the switches of a proxy, shared by all its connections.
type faults struct {
	mu      sync.Mutex
	delay   [2]time.Duration // by Direction
	drops   []*drop
	swallow bool
	refuse  bool
	hold    chan struct{} // while nothing may pass; closed at its end; nil without
	dropped int
}

// drop is the order to lose the replies to the next left requests that match.
type drop struct {
	left  int
	match []func(request []byte) bool
}

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
func (p *Proxy) DropReplies(n int, match ...func(request []byte) bool) {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.drops = append(p.faults.drops, &drop{left: n, match: match})
}

// SwallowReplies lets requests through and loses all replies and messages, without closing anything, so that
// clients run into their timeouts. Switching it off cuts the connections that lost a reply.
func (p *Proxy) SwallowReplies(on bool) {
	p.faults.mu.Lock()
	p.faults.swallow = on
	p.faults.mu.Unlock()
	if !on {
		p.cutMute()
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

// Heal ends all faults. Connections that lost a reply are cut, the others live on.
func (p *Proxy) Heal() {
	p.Refuse(false)
	p.Delay(ToServer, 0)
	p.Delay(ToClient, 0)
	p.forgetDrops()
	p.SwallowReplies(false)
	p.Blackhole(false)
}

func (p *Proxy) forgetDrops() {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	p.faults.drops = nil
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

func (f *faults) droppedReplies() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}

// takes reports whether the reply to request is to be dropped, and counts it off if so.
func (f *faults) takes(request []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.drops {
		if d.left > 0 && d.matches(request) {
			d.left--
			return true
		}
	}
	return false
}

func (d *drop) matches(request []byte) bool {
	for _, match := range d.match {
		if !match(request) {
			return false
		}
	}
	return true
}

func (f *faults) countDropped() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped++
}

// swallows reports whether a reply is to be lost, and counts it if so.
func (f *faults) swallows() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.swallow {
		f.dropped++
	}
	return f.swallow
}
