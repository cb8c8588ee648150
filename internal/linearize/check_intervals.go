package linearize

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// term is what is known about one lease.
type term struct {
	acquire *Op
	valid   time.Duration // the last instant at which it was certainly valid, or 0 if it was never seen to be valid
	beside  bool          // its owner already had another lease of the lock when it was granted
}

// terms returns the leases of a name, in the order in which they were granted.
func (f *facts) terms(name string) (all []*term) {
	byLease, owners := map[int]*term{}, map[string]int{}
	for _, op := range f.ops[name] {
		t := byLease[op.Lease]
		switch {
		case (op.Do == doAcquire || op.Do == doTry) && op.Result == isOK:
			t = &term{acquire: op, beside: owners[op.Owner] > 0}
			owners[op.Owner]++
			byLease[op.Lease] = t
			all = append(all, t)
		case t == nil:
		case op.Do == doValid:
			t.valid = max(t.valid, op.Call)
		case op.Do == doRelease:
			owners[op.Owner]--
		}
	}
	return all
}

// checkIntervals checks the assertions that need no order of operations: A1 to A5 of the package documentation.
func (v *Verdict) checkIntervals(f *facts) {
	k := KindOf(f.h.Setting.Kind)
	for _, name := range f.h.Setting.Names {
		terms := f.terms(name)
		if k.Fenced {
			v.wrongs("A1: "+name, f.tokens(terms))
			v.wrongs("A2: "+name, f.writes(name))
		}
		v.wrongs("A3: "+name, f.overlaps(k, terms))
		v.wrongs("A4: "+name, f.unknown(name, terms))
		v.wrongs("A5: "+name, f.endless(k, name))
	}
}

// tokens checks A1: each holder has its own token, which is larger than all tokens that were returned before the holder called.
func (f *facts) tokens(terms []*term) (wrong []string) {
	byReturn := slices.Clone(terms)
	slices.SortFunc(byReturn, func(a, b *term) int { return int(a.acquire.Return - b.acquire.Return) })
	byCall := slices.Clone(terms)
	slices.SortFunc(byCall, func(a, b *term) int { return int(a.acquire.Call - b.acquire.Call) })
	owners, largest, next := map[int64]*Op{}, &Op{}, 0
	for _, t := range byCall {
		op := t.acquire
		for ; byReturn[next].acquire.Return < op.Call; next++ {
			if before := byReturn[next].acquire; before.Token > largest.Token {
				largest = before
			}
		}
		other := owners[op.Token]
		switch {
		case op.Token == 0:
			wrong = append(wrong, fmt.Sprintf("no token: %s", op))
		case other != nil && (other.Owner != op.Owner || other.Grant != op.Grant):
			wrong = append(wrong, fmt.Sprintf("the same token: %s and %s", other, op))
		case other == nil && op.Token <= largest.Token && len(f.forcedOff(op)) == 0:
			wrong = append(wrong, fmt.Sprintf("a smaller token: %s after %s", op, largest))
		}
		owners[op.Token] = op
	}
	return wrong
}

// writes checks that the resource refuses no holder whose lease is valid before and after the write (A2).
func (f *facts) writes(name string) (wrong []string) {
	for _, op := range f.ops[name] {
		if op.Do == doWrite && op.Result == isRefused && len(f.forcedOff(op)) == 0 {
			wrong = append(wrong, fmt.Sprintf("a valid holder was refused: %s", op))
		}
	}
	return wrong
}

// overlaps checks A3: leases that exclude each other are never valid at the same time. For a permit semaphore, the number of leases that are valid
// at the same time never exceeds the number of permits.
func (f *facts) overlaps(k Kind, terms []*term) []string {
	var alone, shared locktest.Spans
	for _, t := range terms {
		to, at := t.valid, func(d time.Duration) time.Time { return time.Unix(0, int64(d)) }
		for _, forced := range f.forcedOff(t.acquire) {
			to = min(to, forced.from)
		}
		if to <= t.acquire.Return || t.beside {
			continue // never seen valid, or a re-entry
		}
		spans := &alone
		if t.acquire.Mode == modeRead {
			spans = &shared
		}
		spans.Add(fmt.Sprintf("%s of lease %d", t.acquire.Grant, t.acquire.Lease), at(t.acquire.Return), at(to))
	}
	if k.Permits > 0 {
		if n := alone.AtOnce(); n > k.Permits {
			return []string{fmt.Sprintf("%d of %d permits were valid at once", n, k.Permits)}
		}
		return nil
	}
	return append(alone.Overlaps(), alone.Meets(&shared)...)
}

// unknown checks A4: if a lease is still valid after a look of the observer, that look must have found the lease in Redis. If the lease may have been
// released by force, the looks from the forced release until the holder must have learned of it do not count.
func (f *facts) unknown(name string, terms []*term) (wrong []string) {
	looks := f.h.Looks
	for _, t := range terms {
		op := t.acquire
		forced := f.forcedOff(op)
		first := sort.Search(len(looks), func(i int) bool { return looks[i].Call > op.Return })
		for _, look := range looks[first:] {
			if look.Return >= t.valid {
				break
			}
			excused := slices.ContainsFunc(forced, func(by forcing) bool { return look.Return >= by.from && look.Call <= by.told })
			if !excused && !slices.Contains(look.Seen[name].Holders, op.Grant) {
				wrong = append(wrong, fmt.Sprintf("at %v Redis had %v, but this lease was valid until %v: %s", look.Call, look.Seen[name], t.valid, op))
				break
			}
		}
	}
	return wrong
}

// endless checks A5: the key of a held lock has a TTL, and taken and free permits add up to all permits.
func (f *facts) endless(k Kind, name string) (wrong []string) {
	for _, look := range f.h.Looks {
		switch seen := look.Seen[name]; {
		case k.Permits > 0 && seen.Free+int64(len(seen.Holders)) != int64(k.Permits):
			wrong = append(wrong, fmt.Sprintf("at %v %d permits were free and %d out", look.Call, seen.Free, len(seen.Holders)))
		case k.Permits == 0 && len(seen.Holders) > 0 && seen.TTL < 0:
			wrong = append(wrong, fmt.Sprintf("at %v %v had no TTL", look.Call, seen.Holders))
		}
	}
	return wrong
}
