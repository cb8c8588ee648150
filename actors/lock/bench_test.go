package lock

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// BenchmarkStep measures the steps of a lock actor for an acquire and its release, without Redis, clocks or other actors. With waiters=0 it
// acquires and releases a free lock; with more waiters the grant goes from one local holder to the next.
func BenchmarkStep(b *testing.B) {
	for _, waiters := range []int{0, 1, 63} {
		b.Run("waiters="+strconv.Itoa(waiters), func(b *testing.B) {
			b.ReportAllocs()
			newStepBench(b).run(waiters)
		})
	}
}

// stepBench acts as the shell of a lock actor, and as a Redis that grants at once.
type stepBench struct {
	*testing.B
	address *lease.Address
	state   State
	numbers uint64
	now     time.Duration
	granted []*wait.Request
	rooms   [4][]wait.Effect // for the effects of nested steps
	depth   int
}

func newStepBench(b *testing.B) *stepBench {
	p := &stepBench{B: b, address: &lease.Address{Kind: scripts.Lock, Name: "x", Raw: "x"}, now: time.Hour}
	policy := wait.Policy{Lease: 30 * time.Second, HandoffMax: 10_000, HandoffFor: 10 * time.Millisecond, MaxWaiters: 100}.WithTimes()
	policy.NewID = func() string { p.numbers++; return "u:" + strconv.FormatUint(p.numbers, 10) }
	policy.Serial = func() uint64 { p.numbers++; return p.numbers }
	policy.Jitter = func(time.Duration) time.Duration { return 0 }
	policy.ServerTime = func(instant time.Duration) time.Duration { return instant }
	p.state.init(&policy, p.address, nil)
	return p
}

func (p *stepBench) run(waiters int) {
	for range waiters + 1 {
		p.acquire()
	}
	for p.Loop() {
		for len(p.granted) == 0 { // the turn is over, and the next one begins after a gap
			p.ring()
		}
		held := p.granted[0]
		p.granted = append(p.granted[:0], p.granted[1:]...)
		held.Hold.Claim()
		p.take(&wait.Request{Do: wait.Release, Address: p.address, Hold: held.Hold})
		p.acquire()
	}
}

func (p *stepBench) acquire() {
	p.take(&wait.Request{Do: wait.Acquire, Address: p.address, Hold: &lease.Hold{}})
}

// ring advances the time to the state's alarm, and sends the alarm.
func (p *stepBench) ring() {
	if p.state.AlarmAt == clock.Never {
		p.Fatal("nobody holds the lock, and there is no alarm")
	}
	p.now = max(p.now, p.state.AlarmAt)
	p.take(wait.Alarm{})
}

// take makes the state handle a message, and answers its calls in place of Redis.
func (p *stepBench) take(message any) {
	p.now += time.Microsecond
	p.depth++
	room := &p.rooms[p.depth]
	*p.state.Room() = (*room)[:0]
	*room = p.state.Step(p.now, message)
	for _, e := range *room {
		switch {
		case e.Do == wait.DoAnswer && e.Request.Do == wait.Acquire:
			p.granted = append(p.granted, e.Request)
		case e.Do == wait.DoCall:
			p.take(&callDone{call: e.Call.(*lockCall), class: scripts.Done, sent: p.now, held: true, acquired: scripts.Acquired{Granted: true}})
		}
	}
	p.depth--
}
