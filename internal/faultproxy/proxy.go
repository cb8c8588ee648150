// Package faultproxy puts a TCP proxy in front of a Redis server. While clients work through the proxy, a
// test switches faults on and off: delays, silence, lost or broken replies, replies that are out of step
// with the requests, and broken or refused connections.
//
// The proxy knows where each request and reply begins and ends (RESP2 and RESP3), so a fault hits whole
// requests and replies. For example, after DropReplies the request was certainly executed, and the client
// has certainly not seen the reply.
package faultproxy

import (
	"context"
	"net"
	"sync"
	"testing"
)

// Direction is the direction in which data flows.
type Direction int

const (
	ToServer Direction = iota // requests
	ToClient                  // replies and messages
)

// Proxy stands between clients and one server. All methods are safe for concurrent use. Without faults it
// forwards everything at once.
type Proxy struct {
	target   string
	listener net.Listener
	ctx      context.Context // ends with the test
	cancel   context.CancelFunc
	running  sync.WaitGroup
	faults   faults

	mu       sync.Mutex
	links    map[*link]struct{}
	accepted int
}

// New starts a proxy to target ("host:port") on an unused port of 127.0.0.1. The proxy ends with the test.
func New(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("faultproxy: %v", err)
	}
	p := &Proxy{target: target, listener: listener, links: map[*link]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr returns the address for clients, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Accepted returns how many connections have been accepted so far, including refused ones.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open returns how many connections are open now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Dropped returns how many replies have been lost so far, in whole or in part.
func (p *Proxy) Dropped() int {
	dropped, _ := p.faults.counts()
	return dropped
}

// Repeated returns how many replies have been passed twice so far.
func (p *Proxy) Repeated() int {
	_, twice := p.faults.counts()
	return twice
}

// Cut closes all connections now. Data that the proxy still held back is lost. New connections are
// accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// cutAstray closes the connections on which a reply was swallowed, skipped or repeated: a client would take the next reply on such a connection for
// the reply to another request.
func (p *Proxy) cutAstray() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.isAstray() {
			l.cut()
		}
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if l := p.add(client); l != nil {
			p.running.Go(func() {
				l.run()
				p.remove(l)
			})
		}
	}
}

// add makes a link for an accepted connection, or closes the connection and returns nil.
func (p *Proxy) add(client net.Conn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	if p.ctx.Err() != nil || p.faults.refuses() {
		_ = client.Close()
		return nil
	}
	l := newLink(p, client)
	p.links[l] = struct{}{}
	return l
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// close ends the proxy and waits for its goroutines. A connection accepted meanwhile is closed either by
// add, which sees the cancelled context, or by Cut.
func (p *Proxy) close() {
	p.cancel()
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}
