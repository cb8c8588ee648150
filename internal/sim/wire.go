package sim

import (
	"bytes"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// wire is one connection of a process to the server. What is written waits in a queue for its time, in either direction, so neither
// side ever waits for the other to read. Until the first command a message takes no time: go-redis makes connections with a mutex
// locked, and somebody who waits for a mutex stops a bubble's time.
type wire struct {
	p    *process
	pipe net.Conn
	out  *lane // to the server
	in   *lane // to the client

	mu       sync.Mutex
	up       bool // the handshake is over
	called   bool // a script
	deadline time.Time
}

const (
	tripMin  = 150 * time.Microsecond
	tripSpan = 700 * time.Microsecond
)

func newWire(p *process, pipe net.Conn) *wire {
	w := &wire{p: p, pipe: pipe, out: newLane(), in: newLane()}
	go w.deliver()
	go w.collect()
	return w
}

// deliver brings to the server what has been written; also after the client has hung up.
func (w *wire) deliver() {
	defer w.pipe.Close()
	for {
		parcel, err := w.out.next(time.Time{})
		if err != nil {
			return
		}
		w.p.world.setServerClock()
		if _, err := w.pipe.Write(parcel); err != nil {
			w.in.end(syscall.ECONNRESET)
			return
		}
	}
}

func (w *wire) collect() {
	buffer := make([]byte, 16<<10)
	for {
		n, err := w.pipe.Read(buffer)
		if n > 0 {
			if w.hasCalled() && w.p.swallows() { // the reply is lost, and the connection with it
				w.cut()
				continue
			}
			_ = w.in.put(bytes.Clone(buffer[:n]), w.arrival(w.in, directionIn, buffer[:n]))
		}
		if err != nil {
			w.in.end(syscall.ECONNRESET)
			return
		}
	}
}

const (
	directionOut = iota
	directionIn
)

// arrival is when something that is sent now arrives; what is sent after it arrives after it.
func (w *wire) arrival(l *lane, direction uint64, message []byte) time.Time {
	now := time.Now()
	if !w.isUp() {
		return now
	}
	own := w.p.trip(direction, message)
	last := l.last()
	if now.Before(last) { // right behind the one before
		return last.Add(own % (20 * time.Microsecond))
	}
	at := now.Add(own)
	if held := w.p.heldUntil(direction); at.Before(held) {
		at = held.Add(own)
	}
	return at
}

func (w *wire) isUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.up
}

func (w *wire) hasCalled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.called
}

func (w *wire) Write(b []byte) (int, error) {
	if !handshake(b) {
		w.mu.Lock()
		w.up = true
		w.called = w.called || bytes.Contains(b, []byte("evalsha"))
		w.mu.Unlock()
	}
	if err := w.out.put(bytes.Clone(b), w.arrival(w.out, directionOut, b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func handshake(b []byte) bool {
	for _, command := range []string{"\r\nhello\r\n", "\r\nclient\r\n"} {
		if bytes.Contains(b, []byte(command)) {
			return true
		}
	}
	return false
}

func (w *wire) Read(into []byte) (int, error) {
	w.mu.Lock()
	deadline := w.deadline
	w.mu.Unlock()
	return w.in.read(into, deadline)
}

// Close hangs up. What has been written still arrives.
func (w *wire) Close() error {
	w.p.forget(w)
	w.in.end(net.ErrClosed)
	w.out.end(net.ErrClosed)
	return nil
}

// cut breaks the connection. What is on its way to the server still arrives, as far as it was sent; what is on its way back does not.
func (w *wire) cut() {
	w.p.forget(w)
	w.in.drop(syscall.ECONNRESET)
	w.out.end(syscall.ECONNRESET)
}

// sever breaks the connection and loses what is on its way in both directions.
func (w *wire) sever() {
	w.p.forget(w)
	w.in.drop(syscall.ECONNRESET)
	w.out.drop(syscall.ECONNRESET)
}

func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	w.deadline = t
	w.mu.Unlock()
	w.in.poke()
	return nil
}

func (w *wire) SetDeadline(t time.Time) error    { return w.SetReadDeadline(t) }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }
func (w *wire) LocalAddr() net.Addr              { return w.pipe.LocalAddr() }
func (w *wire) RemoteAddr() net.Addr             { return w.pipe.RemoteAddr() }

// lane is one direction of a wire: parcels in order, each with the instant at which it arrives. It has one reader.
type lane struct {
	news chan struct{}

	mu      sync.Mutex
	parcels []parcel
	newest  time.Time
	err     error // after the last parcel
}

type parcel struct {
	at   time.Time
	what []byte
}

func newLane() *lane { return &lane{news: make(chan struct{}, 1)} }

func (l *lane) poke() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

func (l *lane) last() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

func (l *lane) put(what []byte, at time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.newest = at
	l.parcels = append(l.parcels, parcel{at, what})
	l.poke()
	return nil
}

func (l *lane) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.poke()
}

func (l *lane) drop(err error) {
	l.mu.Lock()
	l.parcels = nil
	l.mu.Unlock()
	l.end(err)
}

// next waits for the next parcel and its time.
func (l *lane) next(deadline time.Time) ([]byte, error) {
	for {
		l.mu.Lock()
		if len(l.parcels) == 0 && l.err != nil {
			defer l.mu.Unlock()
			return nil, l.err
		}
		var due time.Time
		if len(l.parcels) > 0 {
			if due = l.parcels[0].at; !due.After(time.Now()) {
				defer l.mu.Unlock()
				what := l.parcels[0].what
				l.parcels = l.parcels[1:]
				return what, nil
			}
		}
		l.mu.Unlock()
		if !l.wait(due, deadline) {
			return nil, os.ErrDeadlineExceeded
		}
	}
}

// wait returns when there may be something to do; false: at the deadline.
func (l *lane) wait(due, deadline time.Time) bool {
	until := due
	if !deadline.IsZero() && (due.IsZero() || deadline.Before(due)) {
		until = deadline
	}
	if until.IsZero() {
		<-l.news
		return true
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-l.news:
		return true
	case <-timer.C:
		return until != deadline
	}
}

func (l *lane) read(into []byte, deadline time.Time) (int, error) {
	what, err := l.next(deadline)
	if err != nil {
		return 0, err
	}
	n := copy(into, what)
	if n < len(what) {
		l.mu.Lock()
		l.parcels = append([]parcel{{time.Now(), what[n:]}}, l.parcels...)
		l.mu.Unlock()
	}
	return n, nil
}
