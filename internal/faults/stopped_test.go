package faults_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

const (
	stopLease = time.Second
	stopFor   = stopLease * 3 / 2
)

func init() { childproc.Register("stopped holder", holdInChild) }

// awakening is what a holder observed before and after its process was stopped (SIGSTOP) and continued (SIGCONT).
type awakening struct {
	Stopped time.Duration // from the last look at the lease before the stop until the first look after it; 0 if the lease was lost before the stop
	Valid   bool          // whether the lease was valid at the first look after the stop
	Done    time.Duration // when the holder found Done closed, by the machine's clock
	First   time.Duration // when the first look after the stop was, by the same clock
	Worst   time.Duration // the longest time between two looks after that
	Err     string        // the error of Release
}

// monotonic returns the machine's clock, which is the same for all processes.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano())
}

// holdInChild reads names of locks from its input, and holds each lock until it is lost. While the lease is valid, it writes to the
// registers of the lock, which are keys in Redis (see writeRegisters).
func holdInChild() {
	client := func(addr string) *redis.Client {
		return redis.NewClient(&redis.Options{
			Addr: addr, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
	}
	registers := client(os.Getenv("REGISTERS"))
	rt, err := holdfast.New(client(os.Getenv("ADDR")), holdfast.Options{Lease: stopLease, Logger: locktest.Quiet()})
	if err != nil {
		panic(err)
	}
	for names := bufio.NewScanner(os.Stdin); names.Scan(); {
		lease, err := kindOfChild().Lock(rt, names.Text()).Acquire(context.Background())
		fmt.Println("held:", err == nil)
		if err != nil {
			continue
		}
		seen, err := json.Marshal(watchLease(registers, lease))
		fmt.Println(string(seen), err)
	}
}

// kindOfChild returns the kind that the environment names.
func kindOfChild() locktest.Kind {
	return locktest.Kinds[slices.IndexFunc(locktest.Kinds, func(k locktest.Kind) bool { return k.Name == os.Getenv("KIND") })]
}

// fenced is the script for the register that refuses late writes. It refuses tokens smaller than the largest token so far.
var fenced = redis.NewScript(`
if ARGV[1] < (redis.call('get', KEYS[1]) or '') then return 0 end
redis.call('set', KEYS[1], ARGV[1])
return 1`)

// writeRegisters writes to a register that accepts everything, and to one that refuses late writes.
func writeRegisters(client redis.UniversalClient, lease *holdfast.Lease, who string) {
	ctx := context.Background()
	client.Set(ctx, lease.Name()+":naked", who, 0)
	if lease.Token() != 0 {
		fenced.Run(ctx, client, []string{lease.Name() + ":fenced"}, tokenOf(lease))
	}
}

// tokenOf formats a lease's token so that the strings sort like the tokens.
func tokenOf(lease *holdfast.Lease) string { return fmt.Sprintf("%020d", lease.Token()) }

// watchLease looks at a lease every millisecond until it is lost.
func watchLease(registers *redis.Client, lease *holdfast.Lease) (a awakening) {
	told := make(chan time.Duration)
	go func() { <-lease.Done(); told <- monotonic() }()
	looks := time.NewTicker(time.Millisecond)
	defer looks.Stop()
	for last := monotonic(); ; <-looks.C {
		now := monotonic()
		valid := lease.Valid()
		switch {
		case a.Stopped > 0:
			a.Worst = max(a.Worst, now-last)
		case now-last >= stopFor: // the parent stopped the process: load on the machine does not cause such a long pause
			a.Stopped, a.First, a.Valid = now-last, now, valid
		}
		last = now
		if valid {
			writeRegisters(registers, lease, "child")
			continue
		}
		select {
		case a.Done = <-told:
			if err := lease.Release(context.Background()); !errors.Is(err, holdfast.ErrLeaseLost) {
				a.Err = fmt.Sprint(err)
			}
			return a
		default:
		}
	}
}

func TestFault_StoppedHolderKnowsWhenItContinues(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		tries := locktest.Scaled(52, 2)
		atOnce := min(tries, 4)
		report := &stopReport{}
		next := p.Runtime(t, holdfast.Options{})
		t.Run("children", func(t *testing.T) {
			for i := range atOnce {
				t.Run("", func(t *testing.T) {
					t.Parallel()
					proxy := faultproxy.New(t, p.Addr)
					if i%2 == 1 { // slow replies: a renewal is in flight much of the time
						proxy.Delay(faultproxy.ToClient, stopLease/5)
					}
					child := childproc.Run(t, "stopped holder", "ADDR="+proxy.Addr(), "REGISTERS="+p.Addr, "KIND="+p.Kind.Name)
					for range tries / atOnce {
						showStop(t, p.Another(t), child, next, report)
					}
				})
			}
		})
		t.Log(report)
	})
}

// showStop stops a holder for longer than its lease. Before the holder continues, another runtime acquires the lock.
func showStop(t *testing.T, p *locktest.Place, child *childproc.Handle, next *holdfast.Runtime, report *stopReport) {
	for range 5 { // on a busy machine the child may lose the lease first
		child.Send("%s", p.Name)
		if child.Line() != "held: true" {
			continue
		}
		<-time.After(rand.N(stopLease)) // at any point of the renewal cycle
		require.NoError(t, child.Stop())
		stopped := time.After(stopFor)
		lease := locktest.Acquire(t, p.Lock(next))
		<-stopped
		writeRegisters(p.Redis, lease, "next")
		continued := monotonic()
		require.NoError(t, child.Cont())

		var a awakening
		require.NoError(t, json.NewDecoder(lineOf(child)).Decode(&a))
		assert.Equal(t, map[string]string{lease.ID(): "1"}, p.Fields(t), "the child's late calls affect nobody")
		assert.True(t, lease.Valid())
		locktest.Release(t, lease)
		if a.Stopped > 0 {
			report.add(t, a, continued, p.Redis.Get(t.Context(), p.Name+":naked").Val() == "child")
			if lease.Token() != 0 {
				assert.Equal(t, tokenOf(lease), p.Redis.Get(t.Context(), p.Name+":fenced").Val(), "late writes are refused")
			}
			return
		}
	}
	require.Fail(t, "this machine is too busy for the test")
}

func lineOf(child *childproc.Handle) io.Reader { return strings.NewReader(child.Line()) }

// stopReport sums up what the calls of showStop have found.
type stopReport struct {
	mu    sync.Mutex
	told  []time.Duration // from SIGCONT to Done
	naked int             // late writes to the register that accepts everything: the process was stopped between its call of Valid and the write
	busy  int
}

func (r *stopReport) String() string {
	slices.Sort(r.told)
	return fmt.Sprintf("%d tries; from SIGCONT to Done: median %v, worst %v, %d of them on a busy machine; %d late writes to the register",
		len(r.told), r.told[len(r.told)/2], r.told[len(r.told)-1], r.busy, r.naked)
}

func (r *stopReport) add(t *testing.T, a awakening, continued time.Duration, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.False(t, a.Valid, "the first look after SIGCONT, %v after the last one", a.Stopped)
	assert.Empty(t, a.Err, "Release says that the lease is lost")
	told := a.Done - continued
	stall := max(a.First-continued, a.Worst) // the child looks every millisecond, so a longer time is a stall
	limit := 50*time.Millisecond + locktest.Slack()
	if stall > limit/5 {
		r.busy++
		limit += 5 * stall
	}
	assert.LessOrEqual(t, told, limit, "from SIGCONT to Done; the child's longest stall is %v", stall)
	r.told = append(r.told, told)
	if late {
		r.naked++
	}
}
