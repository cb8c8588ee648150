package lock

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/scripts"
)

// TestStep_RandomModelOfFairLocks plays the random model with a fair lock: each waiter has a place in Redis' queue. As long as Redis answers and no
// message is lost, requests get the lock in the order in which they came, and the lock never stays free for long while requests wait.
func TestStep_RandomModelOfFairLocks(t *testing.T) {
	playSeeds(t, func(seed uint64) *world {
		k := &fairKey{lives: map[string]time.Duration{}, joined: map[string]time.Duration{}}
		w := newWorld(seed, k, scripts.FairLock)
		if w.lossless = w.Chance(50); w.lossless {
			w.Faults, w.Panics = 0, 0
		}
		w.watch = func() {
			k.expire(w)
			w.checkIdle(k.holder == "" && !k.stuck(w))
		}
		return w
	})
}

// fairKey models the key of a fair lock, and the queue beside it.
type fairKey struct {
	plainKey
	queue  []string                 // the grants that wait, head first
	lives  map[string]time.Duration // by process: until when it counts as alive; a client of another library is listed by its place
	joined map[string]time.Duration // by grant: when it last joined the queue
	joins  int64                    // how often grants have joined the queue
	broken time.Duration            // when the lock or the queue was last deleted
	silent time.Duration            // when the lock last became free, or the queue got a new head, without a message
}

func (k *fairKey) String() string { return fmt.Sprintf("%v, then %v", &k.plainKey, k.queue) }

func processOf(id string) string {
	name, _, _ := strings.Cut(id, ":")
	return name
}

func (k *fairKey) alive(w *world, id string) bool { return w.Now < k.lives[processOf(id)] }

// fields returns the holder and the places in the queue that must be given up when their waiters leave. Dead and closing processes need not give up
// their places, so these are left out.
func (k *fairKey) fields(w *world) []string {
	return append(k.plainKey.fields(w), slices.DeleteFunc(slices.Clone(k.queue), func(id string) bool {
		return strings.HasPrefix(id, "peer") || !k.alive(w, id) || w.procs[id[0]-'A'].state.(*Group).Stage >= wait.Closing
	})...)
}

// head removes dead waiters from the head of the queue, and returns the new head, or "" if the queue is empty.
func (k *fairKey) head(w *world) string {
	for len(k.queue) > 0 && !k.alive(w, k.queue[0]) {
		k.queue, k.silent = k.queue[1:], w.Now
	}
	if len(k.queue) == 0 {
		return ""
	}
	return k.queue[0]
}

// leave removes a grant from the queue, and reports whether it was the head.
func (k *fairKey) leave(id string) bool {
	i := slices.Index(k.queue, id)
	if i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
	}
	return i == 0
}

// expire ends a lease that is over.
func (k *fairKey) expire(w *world) {
	if k.holder != "" && k.free(w) {
		k.holder, k.silent = "", max(k.silent, k.expires)
	}
}

// give makes a grant the holder.
func (k *fairKey) give(w *world, id string, lease time.Duration) {
	k.checkOrder(w, id)
	k.leave(id)
	k.holder, k.expires = id, w.Now+lease
}

// wake notifies the head of the queue.
func (k *fairKey) wake(w *world, head string) (receivers int) {
	if head == "" {
		return 0
	}
	return w.publishOn(scripts.WaiterChannel("orders", head))
}

func (k *fairKey) execute(w *world, c *lockCall, done *callDone) {
	k.expire(w)
	switch c.do {
	case callAcquire:
		k.acquire(w, c, &done.acquired)
	case callRelease, callOrphan:
		k.release(w, c, done)
	default:
		k.plainKey.execute(w, c, done)
	}
}

func (k *fairKey) forceRelease(w *world, kind *scripts.Kind) (freed []string) {
	k.expire(w)
	if freed = k.plainKey.forceRelease(w, kind); len(freed) > 0 {
		k.broken = w.Now
		k.wake(w, k.head(w))
	}
	return freed
}

func (k *fairKey) acquire(w *world, c *lockCall, a *scripts.Acquired) {
	id, head := c.terms.Grant, k.head(w)
	switch {
	case k.holder == "" && (head == "" || head == id):
		k.give(w, id, c.terms.Lease)
		a.Granted = true
		return
	case k.holder == id:
		k.expires = max(k.expires, w.Now+c.terms.Lease)
		a.Granted = true
		return
	case k.holder == "":
		a.TTL = -time.Millisecond
	default:
		a.TTL, a.Holder = k.expires-w.Now, k.holder
		w.demand(k.holder, false)
	}
	queued := slices.Contains(k.queue, id)
	if a.Queued = queued || !c.terms.Try && !c.terms.Standing; a.Queued {
		if k.lives[processOf(id)] = w.Now + machinetest.Lease; !queued {
			k.queue, k.joined[id] = append(k.queue, id), w.Now
			k.joins++
			a.Joined = k.joins
		}
	}
	switch head = k.head(w); {
	case head == id:
		a.First = true
	case k.holder == "" && processOf(head) == processOf(id):
		a.Next = head
	}
}

func (k *fairKey) release(w *world, c *lockCall, done *callDone) {
	id, heir, head := c.terms.Grant, c.terms.Heir, ""
	k.checkHeir(w, heir)
	if done.held = k.holder == id; done.held {
		w.checkKept(c)
		if k.holder = ""; c.terms.Keep > 0 {
			k.holder, k.expires = scripts.Nobody(id), w.Now+c.terms.Keep
		}
	}
	if k.leave(id) || done.held {
		head = k.head(w)
	}
	switch {
	case head != "" && head == heir && k.holder == "":
		k.give(w, heir, c.terms.HeirLease)
		done.inherits = true
	case done.held:
		done.receivers = k.wake(w, head) + w.publish()
	default:
		k.wake(w, head)
		if done.inherits = heir != "" && k.holder == heir; done.inherits {
			k.expires = max(k.expires, w.Now+c.terms.HeirLease)
		}
	}
}

// peer adds a client of another library to the queue, unless another such client is there. The client may die while it waits.
func (k *fairKey) peer(w *world) {
	if slices.ContainsFunc(k.queue, func(id string) bool { return strings.HasPrefix(id, "peer") }) {
		return
	}
	id := fmt.Sprint("peer", w.Now)
	k.queue, k.lives[id], k.joined[id] = append(k.queue, id), w.Now+w.UpTo(machinetest.Lease), w.Now
	if w.Chance(90) {
		k.visit(w, id)
	}
}

// visit lets a client of another library take the lock when its turn has come.
func (k *fairKey) visit(w *world, id string) {
	switch k.expire(w); {
	case !slices.Contains(k.queue, id): // its place is lost
	case k.holder != "" || k.head(w) != id:
		w.After(w.UpTo(5*time.Millisecond), func() { k.visit(w, id) })
	default:
		k.give(w, id, w.UpTo(machinetest.Lease))
		if w.Chance(70) {
			w.After(w.UpTo(20*time.Millisecond), func() {
				if k.holder == id {
					k.holder = ""
					k.wake(w, k.head(w))
					w.publish()
				}
			})
		}
	}
}

// remove deletes the lock or the queue.
func (k *fairKey) remove(w *world) {
	k.broken = w.Now
	if w.Chance(50) {
		k.plainKey.remove(w)
	} else {
		k.queue = nil
	}
}

// checkOrder checks that the grant that takes the lock has overtaken no request: no open request arrived clearly before the grant joined the queue.
// Two groups of requests are left out: those that arrived soon after the lock or the queue was deleted, and those that arrived soon after a pause of
// their process. Such a request may move up to a place that no longer exists.
func (k *fairKey) checkOrder(w *world, id string) {
	joined, queued := k.joined[id]
	if !queued {
		joined = w.Now
	}
	for _, p := range w.procs {
		for r := range p.checker.open {
			waits := r.Do == wait.Acquire && !r.Try && r.Owner.IsZero() && r.Came > max(k.broken, p.PausedTo)+machinetest.Lease
			if w.lossless && !w.Excused && waits && r.Came+5*time.Millisecond < joined {
				w.Failf("%s has overtaken a request of %s that came at %v", id, p.Name, r.Came)
			}
		}
	}
}

// checkHeir checks that a release names its process's first waiter in the queue as the heir, if the heir has had its place for some time.
func (k *fairKey) checkHeir(w *world, heir string) {
	for _, id := range k.queue[:max(slices.Index(k.queue, heir), 0)] {
		if w.lossless && processOf(id) == processOf(heir) && k.joined[heir]+5*time.Millisecond < w.Now {
			w.procs[id[0]-'A'].checker.eachMember(func(s *State) {
				if s.pending.id == id && s.contends() {
					w.Failf("%s is named as the heir, but %s is before it", heir, id)
				}
			})
		}
	}
}

// stuck reports whether there is a reason why the lock stays free although requests wait. There are three reasons. The first waiter may have received
// no message, so that only its next attempt tells it that the lock is free. Its process may be paused, or may believe that it still has the lock. Or
// the first waiter is a client of another library.
func (k *fairKey) stuck(w *world) bool {
	switch {
	case w.Now < max(k.silent, k.broken)+machinetest.Lease/2:
		return true
	case len(k.queue) == 0:
		return false
	case strings.HasPrefix(k.queue[0], "peer"):
		return true
	}
	p := w.procs[k.queue[0][0]-'A']
	return p.PausedTo >= w.Now || len(p.holds) > 0
}
