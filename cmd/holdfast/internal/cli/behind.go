package cli

import (
	"bytes"
	"io"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
)

// behind writes messages on a goroutine of its own. While a command runs under a lease, nothing may wait for a reader of standard error: a terminal
// that is paused by Ctrl-S, or a pipe that is full, would hold up the signals to the command.
type behind struct{ work chan func() }

// unreadMost is the number of messages that wait for a reader. Further messages are dropped.
const unreadMost = 100

func newBehind() *behind {
	b := &behind{make(chan func(), unreadMost)}
	go func() {
		runtime.LockOSThread()
		supervise.Unstopped(func() { // while the command is in the foreground, this process is in the background
			for do := range b.work {
				do()
			}
		})
	}()
	return b
}

// to returns a writer that never blocks. Another goroutine writes the messages to w later.
func (b *behind) to(w io.Writer) io.Writer { return behindWriter{b, w} }

type behindWriter struct {
	*behind
	to io.Writer
}

func (w behindWriter) Write(p []byte) (int, error) {
	message := bytes.Clone(p)
	select {
	case w.work <- func() { _, _ = w.to.Write(message) }:
	default:
	}
	return len(p), nil
}

// flush waits until all messages are written, but not longer than endWait.
func (b *behind) flush() {
	timer := time.NewTimer(endWait)
	defer timer.Stop()
	flushed := make(chan struct{})
	select {
	case b.work <- func() { close(flushed) }:
	case <-timer.C:
		return
	}
	select {
	case <-flushed:
	case <-timer.C:
	}
}
