package faultproxy

import (
	"bufio"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

const (
	bufferSize = 32 << 10
	dialWait   = 5 * time.Second
)

// link is one client connection and its server connection. Two goroutines forward data, one in each
// direction.
type link struct {
	proxy  *Proxy
	client net.Conn
	done   chan struct{} // closed by cut

	mu      sync.Mutex
	isCut   bool
	server  net.Conn
	pending []fate // fates of the replies to the requests in flight
	doomed  bool   // a reply was dropped: pass nothing more, cut when pending is empty
	mute    bool   // a reply was swallowed
	shifted bool   // a reply was skipped or repeated
	again   []byte // a reply to be passed again, before the next one
	pubsub  bool   // the client has subscribed: later requests have no reply of their own
}

func newLink(p *Proxy, client net.Conn) *link {
	return &link{proxy: p, client: client, done: make(chan struct{})}
}

// run forwards in both directions until the server closes its connection or the link is cut.
func (l *link) run() {
	defer l.cut()
	dialer := net.Dialer{Timeout: dialWait}
	server, err := dialer.DialContext(l.proxy.ctx, "tcp", l.proxy.target)
	if err != nil || !l.attach(server) {
		return
	}
	var requests sync.WaitGroup
	requests.Go(func() { l.pumpRequests(server) })
	l.pumpReplies(server)
	l.cut() // the server has closed its connection, so the client's is closed, too
	requests.Wait()
}

// attach stores the connection to the server, or closes it if the link was cut meanwhile.
func (l *link) attach(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

// cut closes both connections. It may be called more than once.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return
	}
	l.isCut = true
	close(l.done)
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

func (l *link) isAstray() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mute || l.shifted
}

// pumpRequests forwards requests until the client sends no more. It then closes only the direction to the
// server: requests that were sent must be executed even if their sender is gone.
func (l *link) pumpRequests(server net.Conn) {
	in, out := bufio.NewReaderSize(l.client, bufferSize), bufio.NewWriterSize(server, bufferSize)
	for {
		burst := in.Buffered() == 0
		request, err := readFrame(in)
		if err != nil {
			break
		}
		if !l.pass(ToServer, burst) || !l.noteRequest(request) {
			return
		}
		if forward(out, request, in.Buffered() == 0) != nil {
			return // the server has closed the connection, which pumpReplies notices
		}
	}
	// The end of the requests must not overtake requests that a blackhole holds back.
	if l.pass(ToServer, false) {
		if half, ok := server.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
}

// pumpReplies forwards replies until the server sends no more. It continues when the client has gone,
// because the client's requests may still be on their way.
func (l *link) pumpReplies(server net.Conn) {
	in, out := bufio.NewReaderSize(server, bufferSize), bufio.NewWriterSize(l.client, bufferSize)
	for {
		burst := in.Buffered() == 0
		reply, err := readFrame(in)
		if err != nil {
			break
		}
		if !l.pass(ToClient, burst) {
			return
		}
		pass, end := l.judgeReply(reply)
		_ = forward(out, pass, end || in.Buffered() == 0)
		if end {
			return
		}
	}
	l.pass(ToClient, false)
}

func forward(out *bufio.Writer, frame []byte, flush bool) error {
	_, err := out.Write(frame)
	if err != nil || !flush {
		return err
	}
	return out.Flush()
}

// pass waits for as long as faults hold back data in direction d. burst is true for the first of the frames that
// arrived together; only this frame waits for the delay. pass reports false if the link was cut meanwhile.
func (l *link) pass(d Direction, burst bool) bool {
	if delay := l.proxy.faults.delayOf(d); burst && delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.done:
			return false
		}
	}
	for {
		hold := l.proxy.faults.holding()
		if hold == nil {
			return true
		}
		select {
		case <-hold:
		case <-l.done:
			return false
		}
	}
}

// noteRequest records a request that is about to be forwarded. It reports false if nothing may be forwarded
// any more.
func (l *link) noteRequest(request []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doomed {
		return false
	}
	if subscribes(request) {
		l.pubsub = true
	}
	if !l.pubsub {
		l.pending = append(l.pending, l.proxy.faults.fateOf(request))
	}
	return true
}

// judgeReply pairs a reply with its request. It returns what to pass instead of the reply, and whether the
// connection ends there. Messages belong to no request. Once a connection has subscribed, its further
// requests are not recorded. So the replies to these requests are not paired with a request either.
func (l *link) judgeReply(reply []byte) (pass []byte, end bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	paired := len(l.pending) > 0 && reply[0] != '>'
	what := arrives
	if paired {
		what = l.pending[0]
		l.pending = l.pending[1:]
	}
	switch {
	case what == dropped:
		l.doomed = true
		l.proxy.faults.count(dropped)
		return nil, len(l.pending) == 0
	case l.doomed:
		return nil, len(l.pending) == 0
	case l.mute && paired, l.proxy.faults.swallowing():
		l.mute = l.mute || paired
		l.proxy.faults.count(dropped)
		return nil, false
	case !paired:
		return reply, false
	}
	l.proxy.faults.count(what)
	return l.fulfil(what, reply)
}

// fulfil returns what to pass instead of a reply that has the given fate.
func (l *link) fulfil(what fate, reply []byte) (pass []byte, end bool) {
	if what == skipped {
		l.shifted = true
		return nil, false
	}
	pass = append(l.again, reply...)
	l.again = nil
	switch what {
	case broken:
		return pass[:len(pass)-1-rand.IntN(len(reply)-1)], true
	case repeated:
		l.shifted, l.again = true, reply
	}
	return pass, false
}
