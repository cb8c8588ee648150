//go:build unix

package guard

import (
	"encoding/binary"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/kin"
)

const (
	never      = 50 * 365 * 24 * time.Hour // after the machine has started; a 32-bit time has room for it
	killRounds = 1000                      // bounds the time for a run that starts processes as fast as it loses them
)

// IsGuardian reports whether this process was started as one.
func IsGuardian() bool { return os.Getenv(variable) != "" && os.Args[0] == "holdfast-guardian" }

// Main is what a guardian does.
func Main() {
	signal.Ignore() // all: the group gets signals that are meant for the command
	g := &guardian{run: kin.Run{Mark: kin.Mark(os.Getenv(variable)), Group: os.Getpid()}, deadline: never}
	_ = unix.SetNonblock(0, true)
	_, _ = os.Stdout.Write([]byte{0})
	_ = os.Stdout.Close()
	g.watch()
	g.kill()
}

// guardian is the guardian itself.
type guardian struct {
	run      kin.Run
	deadline time.Duration
	aside    bool // it has left the group
	orphan   bool // its parent has ended
	unread   []byte
}

// watch returns when the run must be killed: at the deadline, or when the parent has ended.
//
// After a pause of this process it reads all orders first: the lease may have been renewed meanwhile. Then it looks at the clock, before
// anything that takes long.
func (g *guardian) watch() {
	alarm := newAlarm()
	for g.obey(); !g.orphan && Now() < g.deadline; g.obey() {
		alarm.wait(0, g.deadline)
	}
}

// obey does what has been ordered.
func (g *guardian) obey() {
	var b [4096]byte
	for {
		n, err := unix.Read(0, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil || n == 0:
			g.orphan = true
			return
		}
		g.unread = append(g.unread, b[:n]...)
		for ; len(g.unread) >= orderSize; g.unread = g.unread[orderSize:] {
			g.do(g.unread[0], int64(binary.NativeEndian.Uint64(g.unread[1:orderSize])))
		}
	}
}

func (g *guardian) do(what byte, value int64) {
	switch what {
	case orderDeadline:
		g.deadline = time.Duration(value)
	case orderCommand:
		g.run.Command = int(value)
	case orderAside:
		g.leave(int(value))
	}
}

func (g *guardian) leave(group int) { g.aside = g.aside || syscall.Setpgid(0, group) == nil }

// kill ends the run: first its group at one blow, which would end this process, too, unless it leaves the group before. That is impossible
// when the parent's group has ended; then the processes are killed one by one.
func (g *guardian) kill() {
	if group, err := unix.Getpgid(os.Getppid()); err == nil && !g.orphan {
		g.leave(group)
	}
	if g.aside {
		_ = syscall.Kill(-g.run.Group, syscall.SIGKILL)
	}
	if g.run.Command != 0 && !g.orphan { // the parent has not collected it, so no other process has its ID
		_ = syscall.Kill(g.run.Command, syscall.SIGKILL)
	}
	for range killRounds {
		left := g.run.All()
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = syscall.Kill(-g.run.Group, syscall.SIGKILL)
}
