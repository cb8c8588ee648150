package pipe

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// drained is a pipe that, like a socket, never blocks the server's writes. A write to a plain pipe would block until the client reads. During that
// time the server would hold a mutex. If another goroutine then waited for the mutex, the time of a testing/synctest bubble would stand still.
type drained struct {
	net.Conn
	changed chan struct{} // signals that a field below has changed

	mu       sync.Mutex
	arrived  bytes.Buffer
	err      error // of the pipe
	deadline time.Time
}

func drain(pipe net.Conn) *drained {
	d := &drained{Conn: pipe, changed: make(chan struct{}, 1)}
	go func() {
		buffer := make([]byte, 4096)
		for d.err == nil {
			n, err := pipe.Read(buffer)
			d.change(func() { d.arrived.Write(buffer[:n]); d.err = asSocket(err) })
		}
	}()
	return d
}

// asSocket turns the error of a pipe that was cut into the error of a socket whose peer is gone, which go-redis recognizes.
func asSocket(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return io.EOF
	}
	return err
}

func (d *drained) Write(b []byte) (int, error) {
	n, err := d.Conn.Write(b)
	return n, asSocket(err)
}

func (d *drained) change(how func()) {
	d.mu.Lock()
	how()
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// Read returns what has arrived; there is one reader at a time.
func (d *drained) Read(into []byte) (int, error) {
	for {
		d.mu.Lock()
		n, _ := d.arrived.Read(into)
		err, deadline := d.err, d.deadline
		d.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		var late <-chan time.Time
		if !deadline.IsZero() {
			late = time.After(time.Until(deadline))
		}
		select {
		case <-d.changed:
		case <-late:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (d *drained) SetReadDeadline(t time.Time) error {
	d.change(func() { d.deadline = t })
	return nil
}

func (d *drained) SetWriteDeadline(t time.Time) error {
	return asSocket(d.Conn.SetWriteDeadline(t))
}

func (d *drained) SetDeadline(t time.Time) error {
	_ = d.SetReadDeadline(t)
	return d.SetWriteDeadline(t)
}
