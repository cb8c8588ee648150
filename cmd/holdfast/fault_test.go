//go:build unix

package main_test

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	faultLease = 3 * time.Second
	faultGrace = 300 * time.Millisecond
)

// stage is one run of exec during a fault, with a command that ignores SIGTERM.
type stage struct {
	t      *testing.T
	server *redistest.Server
	proxy  *faultproxy.Proxy
	client *redis.Client // directly to the server
	name   string
	run    *invocation
	group  int
	stalls *locktest.Stalls // stalls of the machine, during which no process runs; a kill may be late by as much
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, stalls: locktest.NewStalls(), server: redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always"), name: redistest.Name(t)}
	t.Cleanup(s.stalls.End)
	s.proxy = faultproxy.New(t, s.server.Addr())
	options := s.server.Options()
	options.MaxRetries, options.DialTimeout, options.ReadTimeout = -1, 500*time.Millisecond, 500*time.Millisecond
	s.client = redis.NewClient(options)
	t.Cleanup(func() { assert.NoError(t, s.client.Close()) })
	file, command := script(t, "trap '' TERM; sleep 1000 & sleep 1000 & wait; wait; wait")
	args := []string{"exec", s.name, "--lease", faultLease.String(), "--grace", faultGrace.String(), "--"}
	s.run = holdfast(t, "redis://"+s.proxy.Addr(), append(args, command...)...)
	s.group = groupOf(t, pidIn(t, file))
	return s
}

// gone reports whether the lock's key is known to be gone.
func (s *stage) gone() bool {
	n, err := s.client.Exists(context.Background(), s.name).Result()
	return err == nil && n == 0
}

func (s *stage) dead() bool { return len(alive(s.t, s.group)) == 0 }

// outage repeats a fault, each time for a random duration, until the command is dead. An observer must not see the key gone while the command lives.
func (s *stage) outage(begin, end func()) {
	for !s.dead() {
		begin()
		s.observe(time.Duration(rand.Int64N(int64(faultLease * 3 / 2))))
		end()
		s.observe(faultLease) // if the fault was too short to lose the lock, the command is still running
	}
}

func (s *stage) observe(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && !s.dead(); {
		if s.gone() && !s.dead() {
			start := time.Now()
			locktest.Await(s.t, "the command to be dead", s.dead)
			assert.Less(s.t, time.Since(start), s.stalls.Worst(), "the key is gone, but the command still runs")
		}
		pause(time.Millisecond)
	}
}

// loss is called right after the lock was lost in a way that holdfast could not predict. It checks that the command is soon dead.
func (s *stage) loss() {
	start := time.Now()
	locktest.Await(s.t, "the command to be dead", s.dead)
	assert.Less(s.t, time.Since(start), faultLease/3+faultGrace+200*time.Millisecond+locktest.Slack())
}

// faults make holdfast lose the lock, or nearly lose it. Each returns when the command is dead.
var faults = map[string]struct {
	code int
	do   func(s *stage)
}{
	"killed": {76, func(s *stage) { s.outage(s.server.Kill, s.server.Restart) }},
	"paused": {76, func(s *stage) { s.outage(s.server.Pause, s.server.Resume) }},
	"cut": {76, func(s *stage) {
		s.outage(func() { s.proxy.Refuse(true); s.proxy.Cut() }, func() { s.proxy.Refuse(false) })
	}},
	"silent": {76, func(s *stage) {
		s.outage(func() { s.proxy.Blackhole(true) }, func() { s.proxy.Cut(); s.proxy.Blackhole(false) })
	}},
	"deleted": {76, func(s *stage) {
		require.NoError(s.t, s.client.Del(s.t.Context(), s.name).Err())
		s.loss()
	}},
	"forced": {76, func(s *stage) {
		freed, err := inspect.Free(s.t.Context(), s.client, s.name)
		require.NoError(s.t, err)
		require.True(s.t, freed)
		s.loss()
	}},
	"holdfast stopped": {76, func(s *stage) {
		s.outage(func() { s.signal(syscall.SIGSTOP) }, func() { s.signal(syscall.SIGCONT) })
	}},
	"holdfast killed": {128 + 9, func(s *stage) { s.outage(func() { s.signal(syscall.SIGKILL) }, func() {}) }},
}

func (s *stage) signal(signal syscall.Signal) { _ = s.run.cmd.Process.Signal(signal) }

// The command is dead before an observer sees that the key is gone. If the loss could not be predicted, the command is dead soon after the loss. The
// exit code is right, and no process is left.
func TestExec_CommandIsDeadBeforeTheLockIsFree(t *testing.T) {
	t.Parallel()
	runs := 100
	if testing.Short() {
		runs = 2
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range runs {
				t.Run("", func(t *testing.T) {
					t.Parallel()
					s := newStage(t)
					pause(time.Duration(rand.Int64N(int64(faultLease))))
					fault.do(s)
					assert.Equal(t, fault.code, s.run.code(), "%s", s.run.err.String())
					locktest.Await(t, "all processes to be gone", func() bool { return syscall.Kill(-s.group, 0) != nil && syscall.Kill(s.group, 0) != nil })
					assertGone(t, s.group)
				})
			}
		})
	}
}
