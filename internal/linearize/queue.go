package linearize

import (
	"slices"
	"strings"
	"time"
)

// sighting says when a queued grant got the lock, as far as the observer has seen. If several attempts of an acquire got the lock, only the first
// counts, because it took the grant out of the queue.
type sighting struct {
	after  time.Duration // the grant got the lock after this instant
	before time.Duration // the grant got the lock before this instant, or 0 if that was not seen
}

// around returns the two instants between which an acquire had its effect.
func (s *sighting) around(op *Op) (begin, end time.Duration) {
	if s == nil {
		return op.Call, op.Return
	}
	begin, end = max(op.Call, s.after), op.Return
	if s.before > 0 {
		end = min(end, s.before)
	}
	return min(begin, end), end
}

func (f *facts) sightings(name string) map[string]*sighting {
	all := map[string]*sighting{}
	of := func(grant string) *sighting {
		if all[grant] == nil {
			all[grant] = &sighting{}
		}
		return all[grant]
	}
	var last time.Duration // when the previous look began
	for _, look := range f.h.Looks {
		for _, grant := range look.Seen[name].Queue {
			of(grant).after = look.Call
		}
		for _, grant := range look.Seen[name].Holders {
			if s := of(grant); s.before == 0 {
				s.after, s.before = max(s.after, last), look.Return
			}
		}
		last = look.Call
	}
	return all
}

// queueing returns what the observer has seen of a queue, as operations. A grant that vanishes from the queue
// got the lock if its acquire succeeded; otherwise it gave up its place.
func (f *facts) queueing(name string, lost map[string]bool) (ops []Op) {
	granted := map[string]bool{}
	for _, op := range f.asked[name] {
		if op.Result == isOK {
			granted[op.Grant] = true
		}
	}
	last := map[string]int{} // the last look that saw a grant in the queue
	for i, look := range f.h.Looks {
		for _, grant := range look.Seen[name].Queue {
			last[grant] = i
		}
	}
	var before Look
	kept := func(queue []string) []string {
		return slices.DeleteFunc(slices.Clone(queue), func(grant string) bool { return lost[grant] })
	}
	for i, look := range f.h.Looks {
		left, came := changes(kept(before.Seen[name].Queue), kept(look.Seen[name].Queue))
		change := Op{Name: name, Call: before.Call, Return: look.Return, Result: isOK}
		for _, grant := range left {
			if !granted[grant] || last[grant] >= i {
				change.Do, change.Grant = doLeave, grant
				ops = append(ops, change)
			}
		}
		if len(came) > 0 {
			change.Do, change.Grant, change.came = doEnter, "", came
			ops = append(ops, change)
		}
		before = look
	}
	return ops
}

// changes compares a queue with an earlier look at it: some grants have left, others have joined its end. A grant that did both is in both
// results.
func changes(before, after []string) (left, came []string) {
	kept, from := 0, 0
	for kept < len(after) {
		i := slices.Index(before[from:], after[kept])
		if i < 0 {
			break
		}
		left = append(left, before[from:from+i]...)
		from += i + 1
		kept++
	}
	return append(left, before[from:]...), after[kept:]
}

// lostPlaces returns the grants that may have lost their place in the queue without the observer seeing it. There are two ways. First, a grant may
// have been removed between two looks, because its runtime had given no sign of life for as long as a lease. By the next look, the grant may be in
// the queue again. Second, a grant may have got the lock, and a forced release or the end of a short lease took the lock away before the waiter knew
// that it had the lock.
func (f *facts) lostPlaces(name string) map[string]bool {
	lost := map[string]bool{}
	var before Look
	for _, look := range f.h.Looks {
		for _, grant := range before.Seen[name].Queue {
			id, _, _ := strings.Cut(grant, ":")
			if before.Seen[name].Alive[id] <= look.Server {
				lost[grant] = true
			}
		}
		before = look
	}
	firstHeld := f.firstHeld(name)
	for _, op := range f.asked[name] {
		for _, forced := range f.forcedOff(op) {
			if op.Result == isOK && forced.from <= op.Return {
				lost[op.Grant] = true
			}
		}
		if op.Result == isOK && f.grantedTwice(op, firstHeld) {
			lost[op.Grant] = true
		}
	}
	return lost
}

// firstHeld returns the first look that saw each grant hold the lock.
func (f *facts) firstHeld(name string) map[string]int {
	first := map[string]int{}
	for i, look := range f.h.Looks {
		for _, grant := range look.Seen[name].Holders {
			if _, seen := first[grant]; !seen {
				first[grant] = i
			}
		}
	}
	return first
}

// grantedTwice reports whether op's grant got the lock twice: the observer saw it hold the lock, and later not hold it, before op's successful
// attempt was sent. So Redis has executed an earlier attempt whose reply nobody received. That attempt may have been made for another acquire, which
// has given up: if the outcome of an attempt is unknown, the runtime repeats the attempt for its next waiter.
func (f *facts) grantedTwice(op *Op, firstHeld map[string]int) bool {
	first, seen := firstHeld[op.Grant]
	if !seen {
		return false
	}
	for _, look := range f.h.Looks[first:] {
		if look.Return >= op.Until-op.Length {
			break
		}
		if !slices.Contains(look.Seen[op.Name].Holders, op.Grant) {
			return true
		}
	}
	return false
}
