package faults_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"regexp"
	"slices"
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
	outageAfter = 1500 * time.Millisecond // the least time to watch after the outage

	lanes  = 2 // laneCount in actors
	probes = 5 // the most unanswered calls of a lane: one of each hanging worker that was replaced (gateway.StuckMax), and one of the last worker
)

// In TestFault_OutageEndsWithoutAStorm, a process holds 1 000 locks and waits for 2 000 others. Then Redis is stopped or cut off for two seconds, and
// in this time the leases are due for renewal. No lease is lost, and the renewals come first when Redis is back. The number of calls after the outage
// is limited:
//
//   - Until the overdue renewals have arrived, Redis gets only attempts that were in flight already. In each lane these are the probes that were
//     sent, one at a time, to find out whether Redis is back. If Redis was stopped, each lane also had a batch of 256 calls in flight, which Redis
//     had not read yet.
//   - In addition to the attempts in flight, Redis gets at most three calls per waiter in any 100 ms, and at most nine per waiter in the first
//     second. Three of the nine are attempts, which may all come at once on a busy machine. The other six are releases: if an acquire was in flight
//     when the link broke, the runtime sends a release for it again and again, until the acquire can no longer be executed.
//   - A waiter of a spin lock may make more attempts in the first second, because its back-off is at most 64 to 128 ms.
//   - While Redis is away, at most forty connections a second are tried. When Redis is back, at most ten are opened in all.
func TestFault_OutageEndsWithoutAStorm(t *testing.T) {
	t.Parallel()
	for _, kind := range locktest.Kinds[:locktest.Scaled(len(locktest.Kinds), 1)] {
		t.Run(kind.Name+"/stopped", func(t *testing.T) {
			t.Parallel()
			s := newRush(t, locktest.OwnPlace(t, kind))
			s.pass(t, s.place.Server.Pause, s.place.Server.Resume)
			s.judge(t, lanes*(256+probes))
		})
		t.Run(kind.Name+"/cut off", func(t *testing.T) {
			t.Parallel()
			s := newRush(t, locktest.OwnPlace(t, kind))
			s.pass(t, func() { s.proxy.Refuse(true); s.proxy.Cut() }, s.proxy.Heal)
			s.judge(t, lanes*probes)
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
	renewing      []renewing        // leases that were due for renewal in the outage

	healed       time.Time
	tried, after int // connections during the outage and after it

	mu   sync.Mutex
	seen []scriptSeen
}

// renewing is a lease that was due for renewal in the outage. Its function `moved` reports whether the lease has been renewed since.
type renewing struct {
	lease *holdfast.Lease
	moved func() bool
}

// scriptSeen is a script that the server received: a renewal of locks that the process holds, or a call for locks that the other runtime holds.
type scriptSeen struct {
	at    time.Time
	renew bool
	calls int // one for each lock in the script
}

func newRush(t *testing.T, p *locktest.Place) *rush {
	s := &rush{place: p, held: locktest.Scaled(1_000, 200), waiters: locktest.Scaled(2_000, 400)}
	s.rt, s.proxy = p.Proxied(t, holdfast.Options{Lease: outageLease, OnEvent: s.events.Record})
	other := p.Runtime(t, holdfast.Options{Lease: time.Minute})
	s.others = s.acquireAll(t, other, "other", s.waiters)
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

// monitor records the scripts that the server receives.
func (s *rush) monitor(t *testing.T) {
	conn, err := net.Dial("tcp", s.place.Addr)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "MONITOR\r\n")
	require.NoError(t, err)
	theirs := regexp.MustCompile(`"` + regexp.QuoteMeta(s.place.Name) + ` (own|other) \d+"`)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewReader(conn); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			script, locks := aScript.FindStringSubmatch(line), theirs.FindAllStringSubmatch(line, -1)
			if script != nil && locks != nil {
				seconds, _ := strconv.ParseFloat(script[1], 64)
				s.mu.Lock()
				s.seen = append(s.seen, scriptSeen{time.UnixMicro(int64(seconds * 1e6)), locks[0][1] == "own", len(locks)})
				s.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-ended })
}

// aScript matches a script in the output of MONITOR, and captures the time at which the server received it.
var aScript = regexp.MustCompile(`^\+([0-9.]+) \[[^\]]*\] "evalsha" `)

// pass causes an outage, at such a time that the leases are due for renewal in the middle of it.
func (s *rush) pass(t *testing.T, begin, end func()) {
	s.awaitRenewal(outageFor / 2)
	before := s.proxy.Accepted()
	begin()
	<-time.After(outageFor)
	s.tried = s.proxy.Accepted() - before
	for _, lease := range s.leases {
		if nextRenewal(lease).Before(time.Now().Add(-outageFor / 4)) {
			s.renewing = append(s.renewing, renewing{lease, locktest.Moved(lease.ExpiresAt)})
		}
	}
	s.healed = time.Now()
	end()
	<-time.After(outageAfter)
	s.after = s.proxy.Accepted() - before - s.tried
	for _, r := range s.renewing {
		locktest.Await(t, "renewals", func() bool { return r.moved() || !r.lease.Valid() })
	}
}

// nextRenewal returns the time at which the watchdog will renew a lease. The result may be up to a tenth of a second too early.
func nextRenewal(lease *holdfast.Lease) time.Time { return lease.ExpiresAt().Add(-outageLease * 2 / 3) }

// awaitRenewal waits until half of the leases are due for renewal within the time `before`. On a busy machine it may miss that moment, and then waits
// for a later renewal.
func (s *rush) awaitRenewal(before time.Duration) {
	for {
		next := make([]time.Time, len(s.leases))
		for i, lease := range s.leases {
			next[i] = nextRenewal(lease)
		}
		slices.SortFunc(next, time.Time.Compare)
		late := time.Since(next[len(next)/2].Add(-before))
		if late > 0 && late < before/4 {
			return
		}
		<-time.After(max(-late, 10*time.Millisecond))
	}
}

// judge checks the calls that the server got after the outage. inFlight is how many attempts may have been in flight.
func (s *rush) judge(t *testing.T, inFlight int) {
	for _, lease := range s.leases {
		assert.True(t, lease.Valid())
	}
	assert.Empty(t, locktest.Recorded[holdfast.LeaseLost](&s.events))

	due := len(s.renewing) / 100 // the least number of renewal scripts
	require.Positive(t, due, "no lease was due for renewal in the outage")

	s.mu.Lock()
	defer s.mu.Unlock()
	each := map[time.Duration]int{}
	attempts, before, renewals, first := 0, 0, 0, 0
	for _, script := range s.seen {
		since := script.at.Sub(s.healed)
		if since < 0 {
			continue
		}
		each[since/(100*time.Millisecond)] += script.calls
		if since < time.Second {
			first += script.calls
		}
		if !script.renew {
			attempts += script.calls
		} else if renewals++; renewals <= due {
			before = attempts // other attempts may follow
		}
	}
	most := 0
	for _, n := range each {
		most = max(most, n)
	}
	t.Logf("%d renewals, %d other calls, %d of them before the renewals; at most %d in 100 ms, %d in a second; %d connections tried during the outage, %d after",
		renewals, attempts, before, most, first, s.tried, s.after)
	assert.GreaterOrEqual(t, renewals, due)
	assert.LessOrEqual(t, before, inFlight, "renewals go first")
	assert.LessOrEqual(t, most, 3*s.waiters+inFlight, "calls in 100 ms")
	perWaiter := 9
	if s.place.Kind.Deaf {
		perWaiter = 1 + int(time.Second/(64*time.Millisecond))
	}
	assert.LessOrEqual(t, first, perWaiter*s.waiters+inFlight, "calls in the first second")
	assert.LessOrEqual(t, s.tried, int(20*2*outageFor/time.Second), "connections tried")
	assert.LessOrEqual(t, s.after, 10, "connections opened")
}
