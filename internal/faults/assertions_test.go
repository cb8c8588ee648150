package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// serverTrouble is one kind of fault. The assertions A1 to A6 and A8 of SAFETY.md must hold under this fault, except those that may fail according to
// the fields `forgets` and `reckons`.
type serverTrouble struct {
	name string
	args []string // of the server
	make func(ctx context.Context, w *world)
	heal func(w *world) // repairs the server after the trouble, or nil if there is nothing to repair

	clocked bool          // the server's clock can be set
	ahead   time.Duration // by how much the server's clock is ahead from the start
	forgets bool          // the server may forget grants and queues: A2, A3 and A8 may fail; A4 may fail for a third of a lease
	reckons bool          // tokens may be repeated: A1 and A2 may fail
}

var serverTroubles = []serverTrouble{
	{name: "none", make: wait},
	{name: "links", make: breakLinks},
	{name: "forgotten scripts, killed connections", make: killConnections},
	{name: "busy", make: keepBusy},
	{name: "paused clients", make: pauseClients, heal: awaitAnswer},
	{name: "standing still", make: standStill},
	{name: "out of memory", make: takeMemory, heal: giveMemory},
	{name: "a clock an hour ahead", clocked: true, ahead: time.Hour, make: wait},
	{name: "a clock ten years behind", clocked: true, ahead: -10 * 365 * 24 * time.Hour, make: wait},
	{name: "a clock that steps back", clocked: true, make: stepClock(-1)},
	{name: "crashes, appendfsync always", args: keepings["always"].args, make: crashAndRestart},
	{name: "crashes, appendfsync everysec", args: keepings["everysec"].args, make: crashAndRestart, forgets: true},
	{name: "crashes, nothing kept", make: crashAndRestart, forgets: true},
	{name: "all data deleted", make: flushData, forgets: true},
	{name: "eviction, allkeys-lru", args: []string{"--maxmemory-policy", "allkeys-lru"}, make: takeMemory, heal: giveMemory, forgets: true},
	{name: "eviction, volatile-lru", args: []string{"--maxmemory-policy", "volatile-lru"}, make: takeMemory, heal: giveMemory, forgets: true},
	{name: "eviction, volatile-ttl", args: []string{"--maxmemory-policy", "volatile-ttl"}, make: takeMemory, heal: giveMemory, forgets: true},
	{name: "a clock that steps forward", clocked: true, make: stepClock(1), forgets: true},
	{name: "a clock that steps back, and crashes", clocked: true, make: stepBackAndCrash, forgets: true, reckons: true},
}

// Users of three runtimes contend for one lock of each kind while the server has one kind of trouble. The test asserts what SAFETY.md promises under
// this trouble, and counts the violations that SAFETY.md permits. Under failing links, internal/linearize also checks the result of each operation.
func TestFault_AssertionsHoldUnderEveryTrouble(t *testing.T) {
	t.Parallel()
	for _, trouble := range serverTroubles {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, trouble)
			w.run(time.Duration(locktest.Scaled(20, 2)) * time.Second)
			w.assert()
		})
	}
}

func (w *world) assert() {
	counts := struct{ holders, beside, refused, smaller int }{}
	for _, l := range w.locks {
		overlaps := l.overlaps()
		if !w.trouble.forgets {
			assert.Empty(w.t, overlaps, "A3: %s", l.Kind.Name)
			assert.Empty(w.t, l.refused, "A2: %s", l.Kind.Name)
			assert.Empty(w.t, l.overtaken(w), "A8: %s", l.Kind.Name)
		}
		smaller := l.smallerTokens(w.trouble.forgets)
		if !w.trouble.reckons {
			assert.Empty(w.t, smaller, "A1: %s", l.Kind.Name)
		}
		assert.Empty(w.t, l.untold(w), "A4: %s", l.Kind.Name)
		assert.Positive(w.t, len(l.tenures), "holders of %s", l.Kind.Name)
		counts.holders, counts.beside = counts.holders+len(l.tenures), counts.beside+len(overlaps)
		counts.refused, counts.smaller = counts.refused+len(l.refused), counts.smaller+len(smaller)
	}
	assert.Empty(w.t, w.panics(), "panics")
	w.t.Logf("%d holders; two leases were valid at once %d times, %d valid holders were refused, %d tokens were smaller; the longest wait afterwards took %v",
		counts.holders, counts.beside, counts.refused, counts.smaller, w.longest.Round(time.Millisecond))
	w.leaveNothing()
}

// leaveNothing asserts that nothing is left in Redis once the runtimes are closed (A5), and that no scripts run any more.
func (w *world) leaveNothing() {
	for _, rt := range w.rts {
		assert.NoError(w.t, rt.Close(context.Background()))
	}
	var left []string
	defer func() { assert.Empty(w.t, left, "A5") }()
	locktest.Await(w.t, "nothing to be left (A5)", func() bool { left = locktest.Keys(w.t, w.redis); return len(left) == 0 })
	calls := func() int64 { return w.server.CommandStats(w.t, "evalsha")["evalsha"] }
	before := calls()
	<-time.After(worldLease / 2)
	assert.Equal(w.t, before, calls(), "A5: scripts run although all runtimes are closed")
}
