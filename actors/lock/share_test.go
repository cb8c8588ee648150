package lock

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/turns"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/scripts"
)

// TestStep_SharesAreEven lets processes contend in the model for ten seconds; their users want the lock all the time. Release messages
// always reach some of them later than others, as with subscribers of Redis, and their clocks differ. Every process gets its share, and so
// does a client that only polls every few milliseconds.
func TestStep_SharesAreEven(t *testing.T) {
	for _, c := range []struct {
		processes, users int
		section          time.Duration
		busy             float64 // minimum fraction of the time in which the lock is in use
	}{
		{1, 1, 20 * time.Millisecond, 0.8}, // the process has one user, so nobody waits when that user releases the lock
		{1, 16, time.Millisecond, 0.7},
		{2, 1, time.Millisecond, 0.45}, // a round trip to Redis takes as long as the section
		{8, 1, 20 * time.Millisecond, 0.8},
		{8, 8, 500 * time.Microsecond, 0.6},
		{8, 8, time.Millisecond, 0.7},
		{8, 8, 20 * time.Millisecond, 0.9},
	} {
		for _, every := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond} {
			t.Run(fmt.Sprintf("%dx%d section=%v look=%v", c.processes, c.users, c.section, every), func(t *testing.T) {
				t.Parallel()
				f := newFight(c.processes, c.users, c.section, false)
				if every > 0 {
					f.look(every)
				}
				f.run(t)
				busy := float64(f.used) / float64(f.end)
				t.Logf("served %v, busy %.0f %%; polled in vain for at most %v", f.served, 100*busy, f.vain)
				assert.LessOrEqual(t, slices.Max(f.served), 2*slices.Min(f.served), "shares")
				assert.Less(t, f.vain, vainMax, "the client that polls finds a gap in time")
				assert.Greater(t, busy, c.busy)
			})
		}
	}
}

// TestStep_NobodyStarvesBesideRedisson lets processes contend beside clients that take no turns: these try as soon as they receive a release
// message. The process that receives its messages last nearly always loses. That process must not conclude that it should let more and more
// processes go first.
func TestStep_NobodyStarvesBesideRedisson(t *testing.T) {
	f := newFight(4, 1, time.Millisecond, true)
	f.end = 20 * time.Second
	f.besideRedisson(16)
	f.run(t)
	t.Logf("served %v", f.served)
	assert.GreaterOrEqual(t, slices.Min(f.served), 40)
}

// besideRedisson adds clients of another library that also want the lock all the time.
func (f *fight) besideRedisson(clients int) {
	f.listeners = clients
	for i := range clients {
		name, waits := fmt.Sprint("peer", i), false
		var try func()
		try = func() {
			if waits = !f.key.free(f.world); waits || f.Now >= f.end {
				return
			}
			f.key.holder, f.key.expires = name, f.Now+time.Minute
			f.use(-1)
			f.After(f.section+f.way+f.UpTo(f.way), func() {
				f.key.holder = ""
				f.publish()
				f.After(2*f.way+f.UpTo(f.way), try)
			})
		}
		f.told = append(f.told, func() {
			if waits {
				f.After(f.way+f.UpTo(4*f.way), func() {
					if waits {
						try()
					}
				})
			}
		})
		f.After(f.UpTo(20*time.Millisecond), try)
	}
}

const fightFor = 10 * time.Second

// vainMax is the longest time for which a client that polls may fail to find the lock free. Contenders leave a gap for such a client after the first
// release in each period of 1.5 s. If a period begins in the middle of a turn, that release comes at the end of the turn. The client then needs a
// poll or two to find the gap. Both delays together take well below 300 ms.
const vainMax = 3*time.Second/2 + 300*time.Millisecond

// fight is a world in which all users want the lock all the time.
type fight struct {
	*world
	key     *plainKey
	section time.Duration

	served  []int
	settled []int // sections of each process since the instant `settle`
	settle  time.Duration
	end     time.Duration
	vain    time.Duration // longest time for which a polling client failed to find the lock free
	used    time.Duration
}

func newFight(count, users int, section time.Duration, counts bool) *fight {
	k := &plainKey{}
	w := &world{
		World: machinetest.NewWorld(uint64(count), uint64(section)), removed: map[string]bool{}, released: map[string]string{}, leasts: map[string]time.Duration{},
		way: 200 * time.Microsecond, key: k, kinds: []*scripts.Kind{scripts.Lock},
	}
	w.Calm = true
	f := &fight{world: w, key: k, section: section, served: make([]int, count), settled: make([]int, count), end: fightFor}
	policy := wait.Policy{Lease: machinetest.Lease, HandoffMax: 10_000, HandoffFor: 10 * time.Millisecond, MaxWaiters: 100, Standalone: counts}
	for i := range count {
		p := newProc(w, string(rune('A'+i)), policy)
		p.lag = time.Duration(i) * 50 * time.Microsecond
		p.clock = time.Duration(i%3-1) * turns.ClockError
		w.procs = append(w.procs, p)
		for range users {
			w.After(w.UpTo(20*time.Millisecond), func() { f.next(newUser(p), i) })
		}
	}
	return f
}

// next makes a user acquire and release, again and again.
func (f *fight) next(u *user, process int) {
	if f.Now >= f.end {
		return
	}
	h := &lease.Hold{}
	r := u.request(wait.Acquire, func(err error) {
		if err != nil {
			f.Failf("%s: %v", u.p.Name, err)
			return
		}
		f.use(process)
		f.After(f.section, func() { u.release(h, func() { f.next(u, process) }) })
	})
	r.Hold = h
	u.send(r)
}

// look adds a client that receives no messages and polls for the lock.
func (f *fight) look(every time.Duration) {
	since := f.Now
	var again func()
	again = func() {
		if f.Now >= f.end {
			return
		}
		f.vain = max(f.vain, f.Now-since)
		if f.key.holder != "" && f.Now < f.key.expires {
			f.After(every+f.UpTo(time.Millisecond), again)
			return
		}
		f.key.holder, f.key.expires = "peer", f.Now+time.Minute
		f.use(-1)
		f.After(f.section, func() {
			f.key.holder, since = "", f.Now
			f.publish()
			f.After(every+f.UpTo(time.Millisecond), again)
		})
	}
	again()
}

// use counts one critical section of a process, or of another client (-1).
func (f *fight) use(process int) {
	if f.Now >= f.end {
		return // not counted: this user was still waiting when the test ended
	}
	f.used += f.section
	if process >= 0 {
		f.served[process]++
		if f.Now >= f.settle {
			f.settled[process]++
		}
	}
}

func (f *fight) run(t *testing.T) {
	for f.Next() {
		f.checkHolders()
		f.checkOrphan()
	}
	require.NoError(t, f.Err)
	f.checkEnd()
	require.NoError(t, f.Err)
}
