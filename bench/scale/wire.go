package scale

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

// A message takes between wayMin and wayMin+waySpan in either direction.
const (
	wayMin  = 200 * time.Microsecond
	waySpan = 100 * time.Microsecond
)

// wire is a connection to the server that delays messages. Neither side waits for the other to read. The handshake is not delayed:
// go-redis holds a mutex during it, and the clock of a synctest bubble stands still while a goroutine waits for a mutex.
type wire struct {
	net.Conn
	out, in *lane
	times   time.Duration // a factor, not a time: 3 if a message takes three times as long as usual

	mu       sync.Mutex
	up       bool // the handshake is over
	deadline time.Time
}

func newWire(pipe net.Conn, times time.Duration) *wire {
	w := &wire{Conn: pipe, out: newLane(), in: newLane(), times: times}
	go w.deliver()
	go w.collect()
	return w
}

func (w *wire) deliver() {
	defer func() { _ = w.Conn.Close() }()
	for {
		what, err := w.out.next(time.Time{})
		if err != nil {
			return
		}
		if _, err := w.Conn.Write(what); err != nil {
			w.in.end(err)
			return
		}
	}
}

func (w *wire) collect() {
	buffer := make([]byte, 4096)
	for {
		n, err := w.Conn.Read(buffer)
		if n > 0 {
			w.in.put(bytes.Clone(buffer[:n]), w.way())
		}
		if err != nil {
			w.in.end(err)
			return
		}
	}
}

func (w *wire) way() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.up {
		return 0
	}
	return w.times * (wayMin + rand.N(waySpan))
}

func (w *wire) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("\r\nhello\r\n")) && !bytes.Contains(b, []byte("\r\nclient\r\n")) {
		w.mu.Lock()
		w.up = true
		w.mu.Unlock()
	}
	w.out.put(bytes.Clone(b), w.way())
	return len(b), nil
}

func (w *wire) Read(into []byte) (int, error) {
	w.mu.Lock()
	deadline := w.deadline
	w.mu.Unlock()
	what, err := w.in.next(deadline)
	n := copy(into, what)
	w.in.back(what[n:])
	return n, err
}

// Close closes the connection. What has been written still arrives.
func (w *wire) Close() error {
	w.in.end(net.ErrClosed)
	w.out.end(net.ErrClosed)
	return nil
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

// lane is one direction of a wire: messages in order, each with its time of arrival. It has one reader.
type lane struct {
	changed chan struct{}

	mu     sync.Mutex
	queue  []message
	newest time.Time
	err    error // what the reader gets after the last message
}

type message struct {
	at   time.Time
	what []byte
}

func newLane() *lane { return &lane{changed: make(chan struct{}, 1)} }

func (l *lane) poke() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *lane) put(what []byte, way time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := time.Now().Add(way); at.After(l.newest) {
		l.newest = at
	}
	l.queue = append(l.queue, message{l.newest, what})
	l.poke()
}

// back puts back the bytes for which the reader had no room.
func (l *lane) back(rest []byte) {
	if len(rest) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append([]message{{time.Now(), rest}}, l.queue...)
}

func (l *lane) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.poke()
}

// next waits for the next message to arrive, or for the deadline.
func (l *lane) next(deadline time.Time) ([]byte, error) {
	for {
		l.mu.Lock()
		var until time.Time
		switch {
		case len(l.queue) > 0 && !l.queue[0].at.After(time.Now()):
			defer l.mu.Unlock()
			what := l.queue[0].what
			l.queue = l.queue[1:]
			return what, nil
		case len(l.queue) > 0:
			until = l.queue[0].at
		case l.err != nil:
			defer l.mu.Unlock()
			return nil, l.err
		}
		l.mu.Unlock()
		if !deadline.IsZero() && !time.Now().Before(deadline) {
			return nil, os.ErrDeadlineExceeded
		}
		if until.IsZero() || !deadline.IsZero() && deadline.Before(until) {
			until = deadline
		}
		l.wait(until)
	}
}

// wait returns when there may be something to do.
func (l *lane) wait(until time.Time) {
	if until.IsZero() {
		<-l.changed
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-l.changed:
	case <-timer.C:
	}
}
