//go:build unix

package terminaltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "holdfast-terminal-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(folder, "holdfast")
	redistest.AtEnd(func() { _ = os.RemoveAll(folder) })
	locktest.Main(m)
}

var (
	binary string
	built  = sync.OnceValues(func() ([]byte, error) {
		build := exec.Command("go", "build", "-o", binary, "./cmd/holdfast")
		build.Dir = filepath.Join("..", "..", "..")
		return build.CombinedOutput()
	})
)

// terminal is a terminal in which a command runs.
type terminal struct {
	*vt.SafeEmulator
	t    *testing.T
	file *os.File // the side of the emulator: keys are written to it, and output is read from it
	tty  *os.File // the side of the programs
	cmd  *exec.Cmd
	done chan struct{}
}

func open(t *testing.T, columns, rows int) *terminal {
	t.Helper()
	output, err := built()
	require.NoError(t, err, "%s", output)
	x := &terminal{t: t, SafeEmulator: vt.NewSafeEmulator(columns, rows), done: make(chan struct{})}
	x.file, x.tty, err = pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(x.file, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}))
	drawn := make(chan struct{})
	go func() {
		defer close(drawn)
		buffer := make([]byte, 4096)
		for {
			n, err := x.file.Read(buffer)
			_, _ = x.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = x.tty.Close()
		_ = x.file.Close()
		locktest.Closed(t, "the terminal", drawn)
	})
	return x
}

// run starts a program in the terminal, as the leader of the terminal's session.
func (x *terminal) run(url, program string, args ...string) {
	x.t.Helper()
	x.cmd = exec.Command(program, args...)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = x.tty, x.tty, x.tty
	x.cmd.Env = append(os.Environ(), "HOLDFAST_REDIS="+url, "TERM=xterm-256color", "NO_COLOR=")
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(x.t, x.cmd.Start())
	go func() {
		defer close(x.done)
		_ = x.cmd.Wait()
	}()
	x.t.Cleanup(func() {
		_ = x.cmd.Process.Kill()
		<-x.done
	})
}

// shows waits until each of the texts has been on the screen.
func (x *terminal) shows(texts ...string) {
	x.t.Helper()
	for _, text := range texts {
		if !assert.Eventually(x.t, func() bool { return strings.Contains(x.String(), text) }, locktest.Patience, 5*time.Millisecond) {
			require.Failf(x.t, "not on the screen", "%q is not in\n%s", text, x)
		}
	}
}

// hides waits until a text is no longer on the screen.
func (x *terminal) hides(text string) {
	x.t.Helper()
	if !assert.Eventually(x.t, func() bool { return !strings.Contains(x.String(), text) }, locktest.Patience, 5*time.Millisecond) {
		require.Failf(x.t, "still on the screen", "%q is in\n%s", text, x)
	}
}

func (x *terminal) types(keys string) {
	x.t.Helper()
	_, err := x.file.WriteString(keys)
	require.NoError(x.t, err)
}

// code waits for the program to end, and returns its exit code, or 128 + the signal that ended it.
func (x *terminal) code() int {
	x.t.Helper()
	locktest.Closed(x.t, "the end of the program", x.done)
	status, ok := x.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(x.t, ok)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func (x *terminal) settings() string {
	x.t.Helper()
	stty := exec.Command("stty", "-a")
	stty.Stdin = x.tty
	out, err := stty.Output()
	require.NoError(x.t, err)
	return string(out)
}

// isAsBefore checks that a program has left the terminal as it found it.
func (x *terminal) isAsBefore(settings string) {
	x.t.Helper()
	assert.Equal(x.t, settings, x.settings())
	locktest.Await(x.t, "the first screen", func() bool { return !x.IsAltScreen() && !x.CursorHidden() })
}

// splitLines returns the lines of a screen, without the spaces at their ends.
func splitLines(screen string) []string {
	all := strings.Split(screen, "\n")
	for i, line := range all {
		all[i] = strings.TrimRight(line, " ")
	}
	return all
}
