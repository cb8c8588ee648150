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
	never      = 50 * 365 * 24 * time.Hour // the initial deadline: 50 years after the start of the machine, which a 32-bit number of seconds can hold
	killRounds = 1000                      // limit on the rounds of killing, because a run may start processes as fast as they are killed
)

// IsGuardian reports whether this process is a guardian.
func IsGuardian() bool { return os.Getenv(variable) != "" && os.Args[0] == "holdfast-guardian" }

// Main runs the guardian in this process, and returns when the guardian has killed the run.
func Main() {
	signal.Ignore() // all of them: signals to the group are meant for the command
	g := &guardian{run: kin.Run{Mark: kin.Mark(os.Getenv(variable)), Group: os.Getpid()}, deadline: never}
	_ = unix.SetNonblock(0, true)
	_, _ = os.Stdout.Write([]byte{0})
	_ = os.Stdout.Close()
	g.watch()
	g.kill()
}

// guardian is the state that a guardian keeps in its own process. Its parent has a Guard.
type guardian struct {
	run      kin.Run
	deadline time.Duration
	reaped   bool // the command has ended, and its process ID may be reused
	aside    bool // the guardian has left the group
	orphan   bool // the parent of the guardian has ended
	unread   []byte
}

// watch returns when the run must be killed: at the deadline, or when the parent has ended.
//
// This process may have been stopped. When it continues, it first reads all orders, because the lease may have been renewed meanwhile. Then it
// looks at the clock, before it does anything that takes long.
func (g *guardian) watch() {
	alarm := newAlarm()
	for g.obey(); !g.orphan && Now() < g.deadline; g.obey() {
		alarm.wait(0, g.deadline)
	}
}

// obey carries out all orders that have arrived.
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
	case orderAside: // the parent sends this order after it has reaped the command
		g.reaped = true
		g.leave(int(value))
	}
}

func (g *guardian) leave(group int) { g.aside = g.aside || syscall.Setpgid(0, group) == nil }

// kill kills the run. This process first leaves the group, and then kills the whole group with one signal; as a member it would kill itself, too.
// If the parent has ended, this process cannot leave the group, and kills the other processes one by one.
func (g *guardian) kill() {
	if group, err := unix.Getpgid(os.Getppid()); err == nil && !g.orphan {
		g.leave(group)
	}
	if g.aside {
		_ = syscall.Kill(-g.run.Group, syscall.SIGKILL)
	}
	if g.run.Command != 0 && !g.reaped && !g.orphan { // once the parent has ended, the command may have been reaped and its ID reused
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
