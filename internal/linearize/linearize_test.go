package linearize_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/linearize"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

var (
	duration = flag.Duration("linearize.duration", 0, "how long users work on each kind; 0 means 20 s, or 2 s in a short run and with the race detector")
	rate     = flag.Float64("linearize.rate", 0, "the number of operations per second that a run must reach; 0 means a fixed total")
	file     = flag.String("linearize.file", "", "the history that TestRecheck checks; by default, a short one that the test makes itself")
	seed     = flag.Uint64("linearize.seed", uint64(time.Now().UnixNano()), "the seed of what users and nemesis do")
)

func TestMain(m *testing.M) { locktest.Main(m) }

// patience limits how long porcupine may search for an order of the operations on one name.
const patience = 10 * time.Second

// plan returns the plan of a run for a kind. Without -linearize.rate the run continues until enough operations are done, for up to
// locktest.Patience.
func plan(kind linearize.Kind) linearize.Plan {
	p := linearize.Plan{Kind: kind, Lease: leaseAtLeast(), Duration: *duration, Seed: *seed}
	if p.Duration == 0 {
		p.Duration = time.Duration(locktest.Scaled(20, 2)) * time.Second
	}
	if *rate == 0 {
		p.Least = locktest.Scaled(4000, 200)
	}
	return p
}

// leaseAtLeast returns the shortest lease that a run may draw. The lease is longer in runs in which everything is slower, because a run proves
// nothing if no user gets an answer within a lease.
func leaseAtLeast() time.Duration {
	if locktest.Scaled(20, 1) == 1 {
		return 250 * time.Millisecond
	}
	return 150 * time.Millisecond
}

// For each kind of lock, one order of operations explains all answers that the users get, whatever faults hit links, scripts, subscriptions and
// holders. At no time do two users have valid leases that exclude each other.
func TestLinearize(t *testing.T) {
	for _, kind := range linearize.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			check(t, linearize.Run(t, plan(kind)), "")
		})
	}
}

// Even if the server is killed about once a second, one order of operations explains all answers. The server keeps what it has confirmed.
func TestLinearize_ServerKilled(t *testing.T) {
	t.Parallel()
	p := plan(linearize.KindOf("fenced lock"))
	p.Restart = true
	check(t, linearize.Run(t, p), "")
}

// TestRecheck checks a history from a file. Without -linearize.file, the test writes a short history to a file first. So the code that writes and
// reads histories is tested before a failure needs it.
func TestRecheck(t *testing.T) {
	t.Parallel()
	path := *file
	if path == "" {
		path = kept(t)
	}
	h, err := linearize.Read(path)
	require.NoError(t, err)
	check(t, h, path)
}

// kept writes a short history to a file, checks that the file contains all of it, and returns the path.
func kept(t *testing.T) string {
	p := plan(linearize.KindOf("fair lock")) // its history has queues, too
	p.Duration, p.Least = time.Second, 200
	h := linearize.Run(t, p)
	path, err := h.Keep()
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.Remove(path)
		}
	})
	again, err := linearize.Read(path)
	require.NoError(t, err)
	require.Equal(t, h, again)
	return path
}

// check fails the test if a history is wrong or too short, and keeps such a history unless it is in a file already.
func check(t *testing.T, h *linearize.History, path string) {
	v := linearize.Check(h, patience)
	operations, grants := h.Counts()
	t.Logf("%s: %d operations in %v, %d of them grants, and %d looks at leases, under %d faults; lease %v. Checked in %v",
		h.Setting.Kind, operations, h.Setting.Worked.Round(time.Millisecond), grants, len(h.Ops)-operations, len(h.Faults),
		h.Setting.Lease.Round(time.Millisecond), v.Took.Round(time.Millisecond))
	least := max(*rate*h.Setting.Worked.Seconds(), 1)
	if *rate == 0 {
		least = float64(locktest.Scaled(4000, 200))
	}
	void := path == "" && (float64(operations) < least || float64(grants) < least/10)
	if v.OK() && !void && !t.Failed() {
		return
	}
	if path == "" {
		var err error
		path, err = h.Keep()
		require.NoError(t, err)
	}
	if void {
		v.Inconclusive = append(v.Inconclusive, fmt.Sprintf("too few: %d operations and %d grants in %v; needed are %.0f operations and a tenth as many grants",
			operations, grants, h.Setting.Worked, least))
	}
	assert.Fail(t, fmt.Sprintf("the history is in %s\n%s", path, v))
}
