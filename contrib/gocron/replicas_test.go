package gocron_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdgocron "github.com/holdfast-go/holdfast/contrib/gocron"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	atLeast = 500 * time.Millisecond
	addrVar = "HOLDFAST_TEST_REPLICA" // if set, this process is a replica; the value is the address of its Redis
	fileVar = "HOLDFAST_TEST_RUNS"    // the file in which a replica notes its runs
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(addrVar); addr != "" {
		if err := runReplica(addr, os.Getenv(fileVar)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redistest.Main(m)
}

// noting is a Locker that notes when the last successful call of Lock began.
type noting struct {
	gocron.Locker
	asked atomic.Int64 // Unix time in ns
}

func (n *noting) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	asked := time.Now().UnixNano()
	l, err := n.Locker.Lock(ctx, key)
	if err == nil {
		n.asked.Store(asked)
	}
	return l, err
}

// runReplica runs a job once a second until the process gets SIGTERM. The job takes a millisecond.
func runReplica(addr, file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	rt, err := holdfast.New(client, holdfast.Options{})
	if err != nil {
		return err
	}
	runs, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0) //nolint:gosec // of this test
	if err != nil {
		return err
	}
	locker := &noting{Locker: holdgocron.NewLocker(rt, holdgocron.AtLeast(atLeast))}
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	job := func() {
		_, _ = fmt.Fprintln(runs, locker.asked.Load(), time.Now().UnixNano())
		<-time.After(time.Millisecond) // the work
	}
	if _, err := s.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(job), gocron.WithName("tick")); err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	if err := s.Shutdown(); err != nil {
		return err
	}
	return rt.Close(context.Background())
}

// noted is one run of the job: when its lock was asked for, and when it began.
type noted struct{ asked, began int64 }

func readRuns(t *testing.T, file string) (all []noted) {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // of this test
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var r noted
		_, err := fmt.Sscan(line, &r.asked, &r.began)
		require.NoError(t, err)
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b noted) int { return int(a.began - b.began) })
	return all
}

// Three processes share a job that takes a millisecond and runs each second. One is killed on the way, one is shut down.
// Without -short, the test takes a minute.
func TestLocker_ReplicasShareAJob(t *testing.T) {
	t.Parallel()
	length := time.Minute
	if testing.Short() {
		length = 3 * time.Second
	}
	server := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "runs")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	var replicas [3]*exec.Cmd
	var said [3]bytes.Buffer
	for i := range replicas {
		c := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this very test
		c.Env = append(os.Environ(), addrVar+"="+server.Addr(), fileVar+"="+file)
		c.Stderr = &said[i]
		require.NoError(t, c.Start())
		replicas[i] = c
	}
	end := func(i int, with syscall.Signal, wanted string) {
		require.NoError(t, replicas[i].Process.Signal(with))
		err := replicas[i].Wait()
		assert.Equal(t, wanted, fmt.Sprint(err), said[i].String())
	}
	wait := func() { <-time.After(length / 3) }
	wait()
	end(0, syscall.SIGKILL, "signal: killed")
	wait()
	end(1, syscall.SIGTERM, "<nil>")
	wait()
	end(2, syscall.SIGTERM, "<nil>")

	all := readRuns(t, file)
	require.NotEmpty(t, all)
	seconds := map[int64]int{}
	for i, r := range all {
		seconds[r.began/int64(time.Second)]++
		if i > 0 {
			assert.GreaterOrEqual(t, time.Duration(r.began-all[i-1].asked), atLeast, "between two runs")
		}
	}
	first, last := all[0].began/int64(time.Second), all[len(all)-1].began/int64(time.Second)
	t.Logf("%d runs in %d seconds", len(all), last-first+1)
	if !testing.Short() { // these checks fail if the machine stalls for half a second, even if all pauses between runs are long enough
		assert.GreaterOrEqual(t, last-first+1, int64(length/time.Second)-2)
		for s := first; s <= last; s++ {
			assert.Equal(t, 1, seconds[s], "runs in second %d", s-first)
		}
	}
}
