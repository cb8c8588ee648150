package soak_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var (
	soakFor    = flag.Duration("soak.for", 0, "how long the soak lasts; 0 means a few seconds, to see that it works")
	soakReport = flag.String("soak.report", "", "a file for the table; a relative path begins at the repository's root")
)

func TestMain(m *testing.M) { locktest.Main(m) }

const (
	lease     = time.Second // the length of the leases that the watchdog renews; it is so short that leases are often lost
	processes = 4
	usersEach = 4 // of each process
)

func TestSoak(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	look := server.Client(t)
	soak(t, newWorld(t, alone{server, look}, look), "make soak", 4*time.Second, 2*time.Second)
}

// alone is a single server.
type alone struct {
	server *redistest.Server
	look   *redis.Client
}

func (a alone) addrs() []string           { return []string{a.server.Addr()} }
func (a alone) masters() []*redis.Client  { return []*redis.Client{a.look} }
func (a alone) everyone() []*redis.Client { return a.masters() }

func (a alone) client(links map[string]*faultproxy.Proxy, login func() (string, string)) redis.UniversalClient {
	return locktest.Unasking(&redis.Options{Addr: links[a.server.Addr()].Addr(), CredentialsProvider: login})
}

// soak runs a world for -soak.for, or for a few seconds. The first round is quiet, without faults.
func soak(t *testing.T, w *world, written string, length, between time.Duration) {
	quiet := 2 * time.Second
	if *soakFor > 0 {
		length, between, quiet = *soakFor, time.Minute, 20*time.Second
	}
	if *soakReport != "" { // fails now, not after hours
		require.DirExists(t, filepath.Dir(fromRoot(t, *soakReport)), "-soak.report")
	}
	looks := []look{w.round(quiet, func(ctx context.Context) { <-ctx.Done() })}
	t.Log("quiet:", looks[0])
	assert.Empty(t, looks[0].wrong)
	for end := time.Now().Add(length); time.Now().Before(end); {
		l := w.round(between, w.storm)
		if *soakFor > 0 {
			l.wrong = append(l.wrong, append(l.storms(looks[0]), l.late()...)...)
		}
		looks = append(looks, l)
		t.Log(l)
		for _, wrong := range l.wrong {
			assert.Fail(t, wrong)
		}
	}
	w.close()
	if *soakFor >= 10*time.Minute {
		for _, wrong := range grown(looks[1:]) {
			assert.Fail(t, wrong)
		}
	}
	if *soakReport != "" {
		require.NoError(t, os.WriteFile(fromRoot(t, *soakReport), []byte(report(written, looks)), 0o644)) //nolint:gosec // it is to be read
	}
}

// round runs users and a storm. After the time d, the storm begins no more faults, and the users continue until the last fault is over. Then every
// process must be served. When nobody holds anything any more, the test checks the results.
func (w *world) round(d time.Duration, storm func(context.Context)) look {
	users, stop := context.WithCancel(context.Background())
	defer stop()
	var group sync.WaitGroup
	for _, p := range w.processes {
		for range usersEach {
			group.Go(func() { w.use(users, p) })
		}
	}
	start := time.Now()
	pace := w.measured(func() {
		ctx, cancel := context.WithTimeout(users, d)
		defer cancel()
		storm(ctx)
	})
	stormy, healed := time.Since(start), time.Now()
	w.stalls = locktest.NewStalls(w.stage.everyone()...)
	defer w.stalls.End()
	stop()
	group.Wait()
	w.serve(func(g *thing) bool { return !g.outlasts }, true)
	served := time.Since(healed)
	l := w.rest()
	l.stalled, l.starved = w.stalls.Worst(), w.counts.starved.Swap(0)
	l.pace, l.served, l.disturbed = pace, served, float64(w.counts.disturbed.Swap(0))/stormy.Seconds()
	return l
}

// fromRoot turns a path from the repository's root into an absolute path. It works in any directory: go test runs tests in the folder of their
// package, and a test binary runs them in the current directory.
func fromRoot(t *testing.T, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	root, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return filepath.Join(root, path)
		}
		require.NotEqual(t, filepath.Dir(root), root, "no go.mod here or above: -soak.report needs a path from /")
		root = filepath.Dir(root)
	}
}

func TestReport_IsWrittenFromTheRoot(t *testing.T) {
	for _, dir := range []string{".", "..", "../.."} {
		t.Run(dir, func(t *testing.T) {
			t.Chdir(dir)
			for _, file := range []string{"internal/soak/REPORT.md", "internal/soak/CLUSTER.md"} {
				assert.FileExists(t, fromRoot(t, file))
			}
		})
	}
	elsewhere := filepath.Join(t.TempDir(), "REPORT.md")
	assert.Equal(t, elsewhere, fromRoot(t, elsewhere))
}
