package sim

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// wire is one connection of a process to the server. In each direction, written bytes wait in a queue until their arrival time, so a writer never
// waits for the reader. Messages before the first command take no time. The reason is that go-redis makes connections with a mutex locked, and a
// goroutine that waits for a mutex stops the bubble's time.
type wire struct {
	p    *process
	pipe net.Conn
	out  *lane // to the server
	in   *lane // to the client

	mu       sync.Mutex
	up       bool                       // the handshake is over
	dice     dice                       // set when the handshake is over
	called   map[string]bool            // the commands that this connection was used for
	deaf     bool                       // arriving bytes are lost
	held     [directionIn + 1]time.Time // no message arrives before this time, by direction
	deadline time.Time
}

const (
	tripMin  = 150 * time.Microsecond
	tripSpan = 700 * time.Microsecond
)

func newWire(p *process, pipe net.Conn) *wire {
	w := &wire{p: p, pipe: pipe, out: newLane(), in: newLane(), called: map[string]bool{}}
	go w.deliver()
	go w.collect()
	return w
}

// deliver passes written bytes to the server, even after the client has closed the connection.
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
			w.reply(bytes.Clone(buffer[:n]))
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

// reply passes the server's reply to the client. If the process is to swallow a script's reply, reply drops it and cuts the connection.
func (w *wire) reply(b []byte) {
	switch {
	case w.in.ended() || w.isDeaf(): // this reply is lost anyway, so it does not use up one of the replies to swallow
	case w.isFor("evalsha") && w.p.swallows():
		w.p.loses()
		w.cut()
	default:
		_, up := w.drawn()
		at := w.arrival(w.in, directionIn)
		if w.in.put(b, at) == nil && up {
			w.show("<", b, at)
		}
	}
}

// show records a message in the history if the history includes messages.
func (w *wire) show(direction string, b []byte, at time.Time) {
	if d, up := w.drawn(); up && w.p.world.wires {
		if at := mark.FindIndex(b); at != nil {
			b = b[:at[0]]
		}
		text := strings.ReplaceAll(string(b), "\r\n", " ")
		w.p.world.history.add(fmt.Sprintf("%s%s%04x", w.p.name, direction, uint64(d)>>48), "until %v: %s", at.Sub(w.p.world.history.start), text)
	}
}

// arrival returns the time at which a message that is sent now arrives. Messages never overtake each other.
func (w *wire) arrival(l *lane, direction uint64) time.Time {
	now := time.Now()
	d, up := w.drawn()
	if !up {
		return now
	}
	own := tripMin + d.of(direction, l.count()).below(tripSpan)
	last := l.last()
	if now.Before(last) { // the message before has not arrived yet, so this one arrives directly after it
		return w.p.world.unique(last.Add(1 + own%(20*time.Microsecond)))
	}
	at := now.Add(own)
	held := w.p.heldUntil(direction)
	if stuck := w.heldUntil(direction); stuck.After(held) {
		held = stuck
	}
	if at.Before(held) {
		at = held.Add(own)
	}
	return w.p.world.unique(at)
}

func (w *wire) hold(direction int, until time.Time) { w.set(func() { w.held[direction] = until }) }

func (w *wire) heldUntil(direction uint64) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[direction]
}

// drawn returns the wire's own dice, and whether the wire has them yet. The dice depend on the wire's first request, because only that request
// distinguishes two wires that are dialed at the same instant.
func (w *wire) drawn() (dice, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dice, w.up
}

// isFor reports whether the connection was used for a command.
func (w *wire) isFor(command string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.called[command]
}

func (w *wire) isDeaf() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deaf
}

func (w *wire) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *wire) Write(b []byte) (int, error) {
	if !handshake(b) {
		w.mu.Lock()
		if !w.up {
			w.up, w.dice = true, w.p.draw('w', shape(b))
		}
		for _, command := range []string{"evalsha", "subscribe"} {
			w.called[command] = w.called[command] || bytes.Contains(b, []byte("\r\n"+command+"\r\n"))
		}
		w.mu.Unlock()
	}
	at := w.strays(b, w.arrival(w.out, directionOut))
	parcel := bytes.Clone(b)
	if err := w.out.put(parcel, at); err != nil {
		return 0, err
	}
	w.show(">", parcel, at)
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

// Close hangs up. Written bytes still arrive.
func (w *wire) Close() error {
	w.in.end(net.ErrClosed)
	w.out.end(net.ErrClosed)
	return nil
}

// cut breaks the connection. Bytes on their way to the server still arrive; replies on their way back do not.
func (w *wire) cut() {
	w.in.drop(syscall.ECONNRESET)
	w.out.end(syscall.ECONNRESET)
}

// sever breaks the connection and loses the bytes in flight in both directions.
func (w *wire) sever() {
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
