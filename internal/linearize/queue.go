package linearize

import (
	"slices"
	"sort"
	"strings"
	"time"
)

// sighting is what the observer has seen of a grant in a queue: with an order to be kept, the attempt that was executed first counts.
type sighting struct {
	after  time.Duration // the grant had not come before
	before time.Duration // it had come by then; 0: it was not seen
}

// around is when an acquire can have had its effect.
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
	var last time.Duration // the look before
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

// queueing is what the observer has seen of a queue, as operations. Whoever vanishes from it was granted the lock, if an acquire says
// so, or has left.
func (f *facts) queueing(name string, lost map[string]bool) (ops []Op) {
	granted := map[string]bool{}
	for _, op := range f.asked[name] {
		if op.Result == isOK {
			granted[op.Grant] = true
		}
	}
	last := map[string]int{} // look in which a grant was seen for the last time
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

// changes tells a queue from what it was before: some have left, others came to its end. Who did both is among both.
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

// lostPlaces are those who may have lost their place without being seen: thrown out of the queue between two looks, because their
// runtime had not said for a lease that it lives, and perhaps back in it before anybody looks; or granted the lock, and freed by force
// before they were told; or granted it for a short lease, which was over before they were told.
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
	for _, op := range f.asked[name] {
		for _, forced := range f.forcedOff(op) {
			if op.Result == isOK && forced.from <= op.Return {
				lost[op.Grant] = true
			}
		}
		if op.Result == isOK && f.grantedTwice(op) {
			lost[op.Grant] = true
		}
	}
	return lost
}

// grantedTwice reports whether a grant was seen to hold the lock and not to hold it any more, before its holder asked for the lease that
// it was told of: nobody heard of the first.
func (f *facts) grantedTwice(op *Op) bool {
	held := false
	since := sort.Search(len(f.h.Looks), func(i int) bool { return f.h.Looks[i].Return >= op.Call })
	for _, look := range f.h.Looks[since:] {
		if look.Return >= op.Until-op.Length {
			break
		}
		holds := slices.Contains(look.Seen[op.Name].Holders, op.Grant)
		if held && !holds {
			return true
		}
		held = holds
	}
	return false
}
