package faults_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func init() { childproc.Register("counter", countInChild) }

const (
	counters     = 2  // processes
	countersEach = 64 // goroutines
	countWithin  = 5 * time.Minute
)

// Two processes increment a number in a plain file under one lock. Meanwhile their connections are killed, their replies are lost, and the
// server's scripts are flushed all the time. The number is right, the lock is never blocked for long, and no key is left.
func TestFault_CountInAFile(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		file := filepath.Join(t.TempDir(), "number")
		require.NoError(t, os.WriteFile(file, []byte("0"), 0o600))
		each := tries(p, 20_000, 250)/counters/countersEach + 1
		var children []*childproc.Handle
		s := newWeather(t, p)
		s.flush()
		if !p.Kind.Queued { // killed connections lose messages, and then the head of a fair lock's queue notices a release up to a second late
			s.kill()
		}
		for range counters {
			proxy := faultproxy.New(t, p.Addr)
			s.over(proxy)
			child := childproc.Run(t, "counter", "ADDR="+proxy.Addr(), "KIND="+p.Kind.Name, "LOCK="+p.Name, "FILE="+file)
			child.Send("%d", each)
			children = append(children, child)
		}
		start, sum := time.Now(), 0
		for _, child := range children {
			select {
			case <-child.Done():
			case <-time.After(countWithin):
				require.Fail(t, "somebody waits forever")
			}
			require.NoError(t, child.Err(), child.Stderr())
			var told counted
			require.NoError(t, json.Unmarshal([]byte(child.Line()), &told))
			assert.Empty(t, told.Errors, "no fault lasts as long as a wait or a lease")
			assert.Less(t, told.Gap, locktest.Patience, "an orphan would block everybody for half a minute")
			t.Logf("%d increments, longest wait for one %v, longest time without one %v", told.Done, told.Longest.Round(time.Millisecond),
				told.Gap.Round(time.Millisecond))
			sum += told.Done
		}
		s.end()
		assert.Positive(t, s.flushed.Load())
		t.Logf("%d increments in %v, %v", sum, time.Since(start).Round(time.Millisecond), s)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, strconv.Itoa(sum), string(text))
		assert.Equal(t, counters*countersEach*each, sum)
		assert.Empty(t, p.Keys(t))
	})
}

// counted is what a child process reports about its count.
type counted struct {
	Done    int
	Longest time.Duration // the longest wait for an increment
	Gap     time.Duration // the longest time in which no process made an increment
	Errors  []string
}

func countInChild() {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	each, err2 := strconv.Atoi(strings.TrimSpace(line))
	client := redis.NewClient(&redis.Options{
		Addr: os.Getenv("ADDR"), MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	redis.SetLogger(silent{})
	rt, err3 := holdfast.New(client, holdfast.Options{Logger: locktest.Quiet()})
	if err != nil || err2 != nil || err3 != nil {
		panic(fmt.Sprint(err, err2, err3))
	}
	kind := locktest.Kinds[slices.IndexFunc(locktest.Kinds, func(k locktest.Kind) bool { return k.Name == os.Getenv("KIND") })]
	c := &counter{lock: kind.Lock(rt, os.Getenv("LOCK")), file: os.Getenv("FILE")}
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), countWithin)
	defer cancel()
	for range countersEach {
		group.Go(func() { c.count(ctx, each) })
	}
	group.Wait()
	c.note(rt.Close(ctx))
	text, _ := json.Marshal(c.counted)
	fmt.Println(string(text))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// counter is one process that counts.
type counter struct {
	lock *holdfast.Lock
	file string

	mu sync.Mutex
	counted
}

// count makes the given number of increments. An increment counts even if Do returns an error about the release: it was made under a valid lease.
func (c *counter) count(ctx context.Context, times int) {
	for times > 0 && ctx.Err() == nil {
		start, waited := time.Now(), time.Duration(0)
		c.note(c.lock.Do(ctx, func(ctx context.Context) error {
			waited = time.Since(start)
			if err := ctx.Err(); err != nil {
				return err
			}
			times--
			return c.increment()
		}))
		c.mu.Lock()
		c.Longest = max(c.Longest, waited)
		c.mu.Unlock()
	}
}

func (c *counter) note(err error) {
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.Errors = append(c.Errors, err.Error())
	}
}

func (c *counter) increment() error {
	text, err := os.ReadFile(c.file)
	if err != nil {
		return err
	}
	last, err := os.Stat(c.file)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.Done++
	c.Gap = max(c.Gap, time.Since(last.ModTime()))
	c.mu.Unlock()
	return os.WriteFile(c.file, []byte(strconv.Itoa(n+1)), 0o600)
}
