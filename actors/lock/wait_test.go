package lock

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/scripts"
)

// TestStep_NobodyWaitsForAFreeLock lets users acquire and release a lock in the model for ten seconds. They hold it for a moment or for more than a
// second, and some users try instead of waiting. In half of the worlds the connections for messages break again and again; in the other half every
// message arrives. While the lock is free, no user waits for it for longer than freeMax.
func TestStep_NobodyWaitsForAFreeLock(t *testing.T) {
	playSeeds(t, func(seed uint64) *world { return newVisits(seed).world })
}

// freeMax is the longest time for which a lock may be free while a user waits. It is the sum of two times: the longest pause in which a waiting
// process lets others go first, and the length of a gap (see package turns).
const freeMax = 160 * time.Millisecond

// visitEvery is the interval between the bursts in which users acquire together.
const visitEvery = 300 * time.Millisecond

// visits is a world whose users want the lock only from time to time.
type visits struct {
	*world
	key   *plainKey
	since time.Duration // since when the key has been free, or clock.Never if it is taken

	// together makes users acquire in bursts, every visitEvery. Few newcomers come between two bursts, so a waiter whose wake-up was lost is left
	// without help for long enough to be noticed.
	together bool
}

func newVisits(seed uint64) *visits {
	k := &plainKey{}
	v := &visits{key: k, world: &world{
		World: machinetest.NewWorld(seed, 1), removed: map[string]bool{}, released: map[string]string{}, leasts: map[string]time.Duration{}, way: 300 * time.Microsecond, key: k,
	}}
	v.Calm = true
	v.kinds = []*scripts.Kind{[]*scripts.Kind{scripts.Lock, scripts.WriteLock}[v.Random.IntN(2)]}
	v.watch = v.lookAround
	policy := wait.Policy{Lease: 3 * time.Second, HandoffMax: 10_000, HandoffFor: 10 * time.Millisecond, MaxWaiters: 100, Standalone: v.Chance(50)}
	v.together = v.Chance(50)
	broken := v.Chance(50) // connections for messages break
	gaps := []time.Duration{1500, 100, 50}[v.Random.IntN(3)] * time.Millisecond
	for i := range 1 + v.Random.IntN(3) {
		p := newProc(v.world, string(rune('A'+i)), policy)
		p.lag = v.UpTo(300 * time.Microsecond)
		p.policy.GapShared = gaps
		v.procs = append(v.procs, p)
		if broken {
			v.After(v.UpTo(50*time.Millisecond), func() { v.interrupt(p) })
		}
		for range 1 + v.Random.IntN(2) {
			v.After(v.UpTo(20*time.Millisecond), func() { v.visit(newUser(p)) })
		}
	}
	return v
}

// visit makes a user acquire and release, with pauses, until fightFor is over.
func (v *visits) visit(u *user) {
	if v.Now >= fightFor {
		return
	}
	h := &lease.Hold{}
	again := func() { v.After(v.leave(), func() { v.visit(u) }) }
	r := u.request(wait.Acquire, func(err error) {
		if err != nil {
			again()
			return
		}
		v.After(v.pause(), func() { u.release(h, again) })
	})
	r.Hold, r.Try = h, v.Chance(40)
	u.send(r)
	if v.Chance(10) {
		u.p.Post(v.UpTo(50*time.Millisecond), wait.CancelRequest{Request: r, Cause: errors.New("context canceled")})
	}
}

// interrupt breaks a process's connection for messages again and again. A moment later there is a new connection; messages in between are
// lost.
func (v *visits) interrupt(p *proc) {
	if v.Now >= fightFor {
		return
	}
	p.Disconnect(0)
	v.After(v.UpTo(50*time.Millisecond), func() { v.interrupt(p) })
}

// pause returns how long a user holds the lock or stays away: up to a millisecond, up to 20 ms, or about a second. A second is long enough for a
// gap, and for a subscription to end. If users acquire in bursts, the pause is never a second.
func (v *visits) pause() time.Duration {
	switch n := v.Random.IntN(100); {
	case !v.together && n < 15:
		return time.Second + v.UpTo(100*time.Millisecond)
	case n < 60:
		return v.UpTo(20 * time.Millisecond)
	}
	return v.UpTo(time.Millisecond)
}

// leave returns how long a user stays away.
func (v *visits) leave() time.Duration {
	if v.together && v.Chance(50) {
		return visitEvery - v.Now%visitEvery + v.UpTo(time.Millisecond)
	}
	return v.pause()
}

// lookAround checks after every event that no user waits for too long while the key is free.
func (v *visits) lookAround() {
	if !v.key.free(v.world) {
		v.since = clock.Never
		return
	}
	v.since = min(v.since, v.Now)
	for _, p := range v.procs {
		for r := range p.waiting {
			if r.Do != wait.Acquire || r.Try || r.Came == 0 {
				continue
			}
			if waited := v.Now - max(v.since, r.Came); waited > freeMax {
				v.Failf("%s has waited %v for a free lock", p.Name, waited)
			}
		}
	}
}
