package soak_test

import (
	"context"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

var (
	soakFor    = flag.Duration("soak.for", 0, "how long; 0: a few seconds, to see that it works")
	soakReport = flag.String("soak.report", "", "a file for the table, from the repository's root")
)

func TestMain(m *testing.M) { locktest.Main(m) }

const (
	lease     = time.Second // of the watchdog: it is lost and told often
	processes = 4
	users     = 4 // of each process
)

func TestSoak(t *testing.T) {
	length, between := *soakFor, time.Minute
	if length == 0 {
		length, between = 4*time.Second, 2*time.Second
	}
	w := newWorld(t)
	var looks []look
	for end := time.Now().Add(length); time.Now().Before(end); {
		w.live(between)
		l := w.rest()
		looks = append(looks, l)
		t.Log(l)
		for _, wrong := range l.wrong {
			assert.Fail(t, wrong)
		}
	}
	w.close()
	if *soakFor >= 10*time.Minute {
		for _, wrong := range grown(looks) {
			assert.Fail(t, wrong)
		}
	}
	if *soakReport != "" {
		require.NoError(t, os.WriteFile("../../"+*soakReport, []byte(report(looks)), 0o644)) //nolint:gosec // it is to be read
	}
}

// live lets users and faults loose for that long. It returns when all faults are over and nobody holds anything.
func (w *world) live(d time.Duration) {
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	var group sync.WaitGroup
	for _, p := range w.processes {
		for range users {
			group.Go(func() { w.use(ctx, p) })
		}
	}
	w.storm(ctx)
	group.Wait()
}
