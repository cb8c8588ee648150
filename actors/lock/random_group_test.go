package lock

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/scripts"
)

// TestStep_RandomModelOfReadWrite plays the random model with both halves of a read/write lock. Users read and write; some take one half
// while they hold the other. Leases are fixed or renewed. Beside a writer, nobody but the writer's own owner holds the lock.
func TestStep_RandomModelOfReadWrite(t *testing.T) {
	playSeeds(t, func(seed uint64) *world {
		return newWorld(seed, &readWriteKey{holds: map[string]time.Duration{}}, scripts.ReadLock, scripts.WriteLock)
	})
}

// readWriteKey models the key of a read/write lock and the timeout keys beside it.
type readWriteKey struct {
	holds   map[string]time.Duration // by field: the end of a reader's timeout key; a writer has none
	expires time.Duration            // of the hash
}

func (k *readWriteKey) String() string { return fmt.Sprintf("%v until %v", k.holds, k.expires) }

func writes(id string) bool { return strings.HasSuffix(id, ":write") }

func (k *readWriteKey) written() bool { return slices.ContainsFunc(k.fieldList(), writes) }

func (k *readWriteKey) fieldList() []string { return slices.Sorted(maps.Keys(k.holds)) }

func (k *readWriteKey) tidy(w *world) {
	if w.Now >= k.expires {
		clear(k.holds)
	}
}

func (k *readWriteKey) has(w *world, id string) bool {
	k.tidy(w)
	until, there := k.holds[id]
	return there && (writes(id) || w.Now < until)
}

// fields returns the holders, without clients of other libraries (peers). It also leaves out readers whose timeout keys have expired: the field of
// such a reader may stay in the hash, but does not count.
func (k *readWriteKey) fields(w *world) []string {
	return slices.DeleteFunc(k.fieldList(), func(id string) bool { return strings.HasPrefix(id, "peer") || !k.has(w, id) })
}

func (k *readWriteKey) execute(w *world, c *lockCall, done *callDone) {
	k.tidy(w)
	_, there := k.holds[c.terms.Grant]
	reads := c.address.Kind.Grants != scripts.GrantPerLock
	until := w.Now + c.terms.Lease
	switch c.do {
	case callAcquire:
		if done.acquired.Granted = k.admits(c, there); done.acquired.Granted {
			k.holds[c.terms.Grant] = max(k.holds[c.terms.Grant], until)
			k.expires = max(k.expires, until)
		} else {
			done.acquired.TTL = k.expires - w.Now
			done.acquired.Holder = k.fieldList()[0]
		}
	case callPass:
		if _, from := k.holds[c.terms.From]; !there && (!from || len(k.holds) > 1) {
			return
		}
		done.held = true
		delete(k.holds, c.terms.From)
		k.holds[c.terms.Grant], k.expires = until, max(k.expires, until)
		if !there {
			k.expires = until
		}
	case callExtend:
		if done.held = k.has(w, c.terms.Grant); done.held {
			k.extend(w, c, until, reads)
		}
	case callLook:
		done.held = there
	case callRelease, callOrphan:
		if done.held = there; there {
			delete(k.holds, c.terms.Grant)
			done.receivers = k.released(w, reads)
		}
	}
}

func (k *readWriteKey) forceRelease(w *world, kind *scripts.Kind) (freed []string) {
	k.tidy(w)
	if reads := kind.Grants != scripts.GrantPerLock; len(k.holds) == 0 || k.written() == reads {
		return nil
	}
	freed = k.fieldList()
	k.remove(w)
	w.publish()
	return freed
}

func (k *readWriteKey) admits(c *lockCall, there bool) bool {
	if c.address.Kind.Grants == scripts.GrantPerLock {
		return len(k.holds) == 0 || there
	}
	_, own := k.holds[c.terms.WriteGrant]
	return !k.written() || own || there
}

func (k *readWriteKey) extend(w *world, c *lockCall, until time.Duration, reads bool) {
	shorter := reads && k.holds[c.terms.Grant] > until
	k.holds[c.terms.Grant] = until
	switch {
	case !reads && len(k.holds) == 1:
		k.expires = until
	case k.expires < until:
		k.expires = until
	case shorter && !k.written():
		k.expires = k.longest(w)
	}
}

// longest returns the instant at which the last timeout key of all readers expires, or 0 if there is none.
func (k *readWriteKey) longest(w *world) (until time.Duration) {
	for id, end := range k.holds {
		if !writes(id) && end > w.Now {
			until = max(until, end)
		}
	}
	return until
}

func (k *readWriteKey) released(w *world, reads bool) (receivers int) {
	if reads && k.written() {
		return -1
	}
	if k.expires = k.longest(w); k.expires == 0 {
		clear(k.holds)
	} else if reads {
		return -1
	}
	return w.publish()
}

func (k *readWriteKey) remove(w *world) {
	for id := range k.holds {
		w.removed[id] = true
	}
	clear(k.holds)
	k.expires = 0
}

func (k *readWriteKey) peer(w *world) {
	k.tidy(w)
	id := "peer"
	if w.Chance(50) {
		id = "peer:write"
	}
	if k.written() || writes(id) && len(k.holds) > 0 {
		return
	}
	k.holds[id] = w.Now + w.UpTo(machinetest.Lease)
	k.expires = max(k.expires, k.holds[id])
	if w.Chance(70) {
		w.After(w.UpTo(20*time.Millisecond), func() {
			k.tidy(w)
			if _, there := k.holds[id]; there {
				delete(k.holds, id)
				k.released(w, !writes(id))
			}
		})
	}
}
