package linearize

import (
	"slices"
	"strings"
	"time"
)

// slack allows for the rounding of the server's times to milliseconds.
const slack = 8 * time.Millisecond

// facts holds the conclusions from a history that need no model: until when Redis may have a grant that nobody holds, and which refusals say nothing
// about the holder.
type facts struct {
	h        *History
	ops      map[string][]*Op                // by name
	known    map[string]time.Duration        // by grant that a user has had: until when Redis may have the grant
	asked    map[string][]*Op                // acquires and tries, by name
	runtimes map[string]int                  // runtime number, by runtime id
	force    map[string]map[string][]forcing // by name and grant
}

// forcing is the period in which a forced release may affect a grant. It lasts from the call of the forced release until the grant's holder must have
// learned of it. findForced also uses this type for the life of a grant: from the first operation that concerns the grant to the last.
type forcing struct{ from, told time.Duration }

func factsOf(h *History) *facts {
	f := &facts{
		h: h, ops: map[string][]*Op{}, known: map[string]time.Duration{}, asked: map[string][]*Op{}, runtimes: map[string]int{},
		force: map[string]map[string][]forcing{},
	}
	for i, id := range h.Setting.Runtimes {
		f.runtimes[id] = i
	}
	for i := range h.Ops {
		op := &h.Ops[i]
		f.ops[op.Name] = append(f.ops[op.Name], op)
		if op.Do == doAcquire || op.Do == doTry {
			f.asked[op.Name] = append(f.asked[op.Name], op)
		}
		f.remember(op)
	}
	f.findForced()
	return f
}

// remember notes until when Redis may have an operation's grant. When an acquire returns, a copy of the acquire may still be in flight. Redis
// executes the copy within a third of the acquire's lease. The copy takes the lock for at most the length of the lease; the runtime may release it
// earlier. A lease that was lost, or whose release was not confirmed, may also stay in Redis for its whole length.
func (f *facts) remember(op *Op) {
	stays := op.Return + op.Length + op.Length/3 + slack
	switch {
	case op.Grant == "":
	case op.Result == isOK && (op.Do == doAcquire || op.Do == doTry || op.Do == doExtend),
		op.Do == doLost, op.Result == isLost, op.Result == isUnknown:
		f.known[op.Grant] = max(f.known[op.Grant], stays)
	}
}

// runtime returns the number of a grant's runtime, or -1 if it is not one of ours.
func (f *facts) runtime(grant string) int {
	id, _, _ := strings.Cut(grant, ":")
	if runtime, ours := f.runtimes[id]; ours {
		return runtime
	}
	return -1
}

// excused reports whether the refusal of a try says nothing about the holder. There are three possible reasons. Other users of the same runtime may
// have been acquiring or releasing the lock. The refusal may name no holder, although the lock is not a permit semaphore. Or Redis may have had a
// grant or permit that nobody held, and may have refused the try because of it.
func (f *facts) excused(k Kind, op *Op) bool {
	if f.crowded(op) || k.Permits == 0 && op.Holder == "" {
		return true
	}
	if k.Permits > 0 {
		return f.anyDoubt(op)
	}
	if stays, returned := f.known[op.Holder]; returned {
		return op.Call <= stays
	}
	runtime := f.runtime(op.Holder)
	return slices.ContainsFunc(f.asked[op.Name], func(other *Op) bool {
		return other.Runtime == runtime && other.Call <= op.Return && op.Call <= other.Return+f.haunting()
	})
}

// haunting is how long Redis may still have the grant of an acquire that has ended: see the method remember.
func (f *facts) haunting() time.Duration {
	return f.h.Setting.Longest + f.h.Setting.Longest/3 + slack
}

func (f *facts) crowded(op *Op) bool {
	return slices.ContainsFunc(f.ops[op.Name], func(other *Op) bool {
		asks := other.Do == doAcquire || other.Do == doTry || other.Do == doRelease
		return asks && other != op && other.Runtime == op.Runtime && other.Call <= op.Return && op.Call <= other.Return
	})
}

// anyDoubt reports whether Redis may count a permit as taken although nobody holds it. This happens in two cases. First, an acquire was cancelled or
// a lease was lost: the permit counts as taken until ten seconds after the permit's lease has ended. Second, an acquire sent several attempts: an
// earlier attempt, whose reply was lost, may have taken the permit, but the lease begins only with the last attempt.
func (f *facts) anyDoubt(op *Op) bool {
	return slices.ContainsFunc(f.ops[op.Name], func(other *Op) bool {
		until := time.Duration(-1)
		switch {
		case other.Result == isCancelled, other.Result == isUnknown, other.Result == isLost, other.Do == doLost:
			until = other.Return + f.haunting() + 10*time.Second
		case other.isGrant():
			until = sentFor(other)
		}
		return other.Call <= op.Return && op.Call <= until
	})
}

// findForced finds the grants that each forced release may have hit: those that were held or requested at that time.
func (f *facts) findForced() {
	for name, ops := range f.ops {
		lives := map[string]*forcing{} // from the first operation that concerns a grant to the last
		for _, op := range ops {
			from := op.Call
			if op.isGrant() { // the attempt may have been sent earlier, for a waiter that has left since
				from = min(from, sentFor(op))
			}
			switch life := lives[op.Grant]; {
			case op.Grant == "":
			case life == nil:
				lives[op.Grant] = &forcing{from, op.Return}
			default:
				life.from, life.told = min(life.from, from), max(life.told, op.Return)
			}
		}
		f.force[name] = map[string][]forcing{}
		for _, op := range ops {
			if op.Do != doForce || op.Result == isBusy {
				continue
			}
			for grant, life := range lives {
				if life.from <= op.Return && op.Call <= life.told {
					f.force[name][grant] = append(f.force[name][grant], forcing{op.Call, op.Return + f.h.Setting.Longest})
				}
			}
		}
	}
}

// forcedOff returns the forced releases that may have hit the grant of an operation.
func (f *facts) forcedOff(op *Op) []forcing { return f.force[op.Name][op.Grant] }
