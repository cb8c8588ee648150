package redistest

import (
	"context"
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

//go:embed testdata/clock.c
var clockSource []byte

// Clock is the wall clock of a server, which a test may set.
type Clock struct {
	tb   testing.TB
	file *os.File
}

// StartWithClock is Start for a server whose wall clock the test sets. It needs Linux and a C compiler. On other systems the test is skipped. On
// Linux without a compiler the test fails, so that .ci/run, which is for Linux, never skips the test.
func StartWithClock(tb testing.TB, args ...string) (*Server, *Clock) {
	tb.Helper()
	if runtime.GOOS != "linux" {
		tb.Skip("redistest: the clock of a server can be set on Linux only")
	}
	dir := tb.TempDir()
	file, err := os.OpenFile(filepath.Join(dir, "offset"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	tb.Cleanup(func() { _ = file.Close() })
	c := &Clock{tb: tb, file: file}
	c.Set(0)
	library := compileClock(tb, dir)
	s := start(tb, args, func(in *instance) { in.env = []string{"LD_PRELOAD=" + library, "HOLDFAST_CLOCK=" + file.Name()} })
	c.Set(time.Hour)
	ahead := time.Until(s.look().Time(context.Background()).Val())
	if c.Set(0); ahead < time.Minute {
		tb.Fatalf("redistest: this redis-server does not take its time from gettimeofday of a shared C library, so its clock cannot be set")
	}
	return s, c
}

// compileClock compiles the library that is preloaded into the server.
func compileClock(tb testing.TB, dir string) string {
	tb.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		tb.Fatalf("redistest: gcc is missing; it is needed to set the clock of a server: apt-get install gcc libc6-dev")
	}
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	if out, err := exec.Command(compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		tb.Fatalf("redistest: gcc cannot compile the library that sets the clock of a server; are the headers of the C library installed (libc6-dev)? %v\n%s", err, out)
	}
	return library
}

// Set puts the server's clock ahead of this machine's clock by the given duration. A negative duration puts it behind. The change takes effect
// at once.
func (c *Clock) Set(ahead time.Duration) {
	c.tb.Helper()
	var bytes [8]byte
	binary.NativeEndian.PutUint64(bytes[:], uint64(ahead.Microseconds()))
	if _, err := c.file.WriteAt(bytes[:], 0); err != nil {
		c.tb.Fatalf("redistest: set the clock: %v", err)
	}
}
