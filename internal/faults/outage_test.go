package faults_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

const (
	outageLease = 10 * time.Second
	outageFor   = 2 * time.Second
	outageAfter = 1500 * time.Millisecond // for how long the end is watched at least
)

// TestFault_OutageEndsWithoutAStorm has a process hold 1 000 locks and wait for 2 000 others while Redis is away for two seconds, in
// which its leases were to be renewed. Redis stands still, or is cut off. No lease is lost, the renewals come first, and what then
// comes to Redis has its bounds:
//
//   - Before the last renewal there are no more attempts than were on their way: one batch of 256, and four that had no answer in
//     time when Redis stood still.
//   - In any 100 ms there are no more than two scripts for a waiter. In the first second there are no more than nine: three attempts, and
//     releases of what was on its way when the link broke, until it cannot be executed any more. A spin lock's waiter asks as often at
//     any time.
//   - Twenty connections a second are tried while Redis is away, and ten are opened when it is back.
func TestFault_OutageEndsWithoutAStorm(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Kinds[:locktest.Scaled(len(locktest.Kinds), 1)] {
		t.Run(kind.Name+"/stopped", func(t *testing.T) {
			t.Parallel()
			s := newRush(t, locktest.OwnPlace(t, kind))
			s.pass(t, s.place.Server.Pause, s.place.Server.Resume)
			s.judge(t, 5*256)
		})
		t.Run(kind.Name+"/cut off", func(t *testing.T) {
			t.Parallel()
			s := newRush(t, locktest.OwnPlace(t, kind))
			s.pass(t, func() { s.proxy.Refuse(true); s.proxy.Cut() }, s.proxy.Heal)
			s.judge(t, 256)
		})
	}
}

// rush is a process in an outage.
type rush struct {
	place         *locktest.Place
	proxy         *faultproxy.Proxy
	rt            *holdfast.Runtime
	events        locktest.Recorder
	held, waiters int
	leases        []*holdfast.Lease
	others        []*holdfast.Lease // of the other runtime
	begun         time.Time         // the leases

	healed       time.Time
	tried, after int // connections during the outage and after it

	mu   sync.Mutex
	seen []scriptSeen
}

// scriptSeen is a script that the server was sent, a renewal of the process's own locks or something about those of the other.
type scriptSeen struct {
	at    time.Time
	renew bool
}

func newRush(t *testing.T, p *locktest.Place) *rush {
	s := &rush{place: p, held: locktest.Scaled(1_000, 200), waiters: locktest.Scaled(2_000, 400)}
	s.rt, s.proxy = p.Proxied(t, holdfast.Options{Lease: outageLease, OnEvent: s.events.Record})
	other := p.Runtime(t, holdfast.Options{Lease: time.Minute})
	s.others = s.acquireAll(t, other, "other", s.waiters)
	s.begun = time.Now()
	s.leases = s.acquireAll(t, s.rt, "own", s.held)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	for i := range s.waiters {
		s.lock(s.rt, "other", i).AcquireAsync(ctx)
	}
	s.monitor(t)
	return s
}

func (s *rush) lock(rt *holdfast.Runtime, whose string, i int) *holdfast.Lock {
	return s.place.Kind.Lock(rt, s.place.Name+" "+whose+" "+strconv.Itoa(i))
}

func (s *rush) acquireAll(t *testing.T, rt *holdfast.Runtime, whose string, n int) []*holdfast.Lease {
	leases := make([]*holdfast.Lease, n)
	var group sync.WaitGroup
	for i := range leases {
		group.Go(func() { leases[i], _ = s.lock(rt, whose, i).Acquire(t.Context()) })
	}
	group.Wait()
	for _, lease := range leases {
		require.NotNil(t, lease)
	}
	return leases
}

// monitor notes the scripts that the server is sent.
func (s *rush) monitor(t *testing.T) {
	conn, err := net.Dial("tcp", s.place.Addr)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "MONITOR\r\n")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewReader(conn); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if script := aScript.FindStringSubmatch(line); script != nil {
				seconds, _ := strconv.ParseFloat(script[1], 64)
				s.mu.Lock()
				s.seen = append(s.seen, scriptSeen{time.UnixMicro(int64(seconds * 1e6)), script[2] == "own"})
				s.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-ended })
}

// aScript finds the time of a script, and whose locks it is about.
var aScript = regexp.MustCompile(`^\+([0-9.]+) \[[^\]]*\] "evalsha" .*? (own|other) \d+`)

// pass is the outage, with the instant in its middle at which the leases are to be renewed.
func (s *rush) pass(t *testing.T, begin, end func()) {
	<-time.After(time.Until(s.begun.Add(outageLease/3 - outageFor/2)))
	before := s.proxy.Accepted()
	begin()
	<-time.After(outageFor)
	s.tried = s.proxy.Accepted() - before
	s.healed = time.Now()
	end()
	<-time.After(outageAfter)
	s.after = s.proxy.Accepted() - before - s.tried
	locktest.Await(t, "renewals", func() bool {
		for _, lease := range s.leases {
			if time.Until(lease.ExpiresAt()) < outageLease/3 {
				return false
			}
		}
		return true
	})
}

// judge looks at what came to the server after the end. inFlight is how many attempts may have been on their way.
func (s *rush) judge(t *testing.T, inFlight int) {
	for _, lease := range s.leases {
		assert.True(t, lease.Valid())
	}
	assert.Empty(t, locktest.Recorded[holdfast.LeaseLost](&s.events))

	s.mu.Lock()
	defer s.mu.Unlock()
	each := map[time.Duration]int{}
	attempts, before, renewals, first := 0, 0, 0, 0
	for _, script := range s.seen {
		since := script.at.Sub(s.healed)
		if since < 0 {
			continue
		}
		each[since/(100*time.Millisecond)]++
		if since < time.Second {
			first++
		}
		if !script.renew {
			attempts++
		} else if renewals++; renewals <= s.held/100 {
			before = attempts // the renewals that were due; others may follow
		}
	}
	most := 0
	for _, n := range each {
		most = max(most, n)
	}
	t.Logf("%d renewals, %d other scripts, %d of them before the renewals; at most %d in 100 ms, %d in a second; %d connections tried during the outage, %d after",
		renewals, attempts, before, most, first, s.tried, s.after)
	assert.GreaterOrEqual(t, renewals, s.held/100)
	assert.LessOrEqual(t, before, inFlight, "renewals go first")
	assert.LessOrEqual(t, most, 2*s.waiters+inFlight, "scripts in 100 ms")
	assert.LessOrEqual(t, first, 9*s.waiters+inFlight, "scripts in the first second")
	assert.LessOrEqual(t, s.tried, int(20*2*outageFor/time.Second), "connections tried")
	assert.LessOrEqual(t, s.after, 10, "connections opened")
}
