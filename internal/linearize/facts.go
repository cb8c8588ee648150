package linearize

import (
	"slices"
	"strings"
	"time"
)

// slack is for the rounding of the server's milliseconds.
const slack = 8 * time.Millisecond

// facts is what follows from a history without a model: for how long a grant may be in Redis that nobody holds, and when an answer
// came from inside a process.
type facts struct {
	h     *History
	ops   map[string][]*Op                // by name
	known map[string]time.Duration        // until when Redis may have a grant; only of those that were returned
	asked map[string][]*Op                // acquires and tries, by name
	homes map[string]int                  // runtime of an id
	force map[string]map[string][]forcing // by name and grant
}

// forcing is a use of force, from its call until its victim must have been told.
type forcing struct{ from, told time.Duration }

func factsOf(h *History) *facts {
	f := &facts{
		h: h, ops: map[string][]*Op{}, known: map[string]time.Duration{}, asked: map[string][]*Op{}, homes: map[string]int{},
		force: map[string]map[string][]forcing{},
	}
	for i, id := range h.Setting.Runtimes {
		f.homes[id] = i
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

// remember: a copy of an acquire that is on its way when it returns is executed within a third of its lease, and takes the lock for a
// lease then, until its runtime finds out. Who loses a lease, or does not know whether it was given back, leaves it for a lease.
func (f *facts) remember(op *Op) {
	stays := op.Return + op.Length + op.Length/3 + slack
	switch {
	case op.Grant == "":
	case op.Result == isOK && (op.Do == doAcquire || op.Do == doTry || op.Do == doExtend),
		op.Do == doLost, op.Result == isLost, op.Result == isUnknown:
		f.known[op.Grant] = max(f.known[op.Grant], stays)
	}
}

// home is the runtime of a grant, -1: none of ours.
func (f *facts) home(grant string) int {
	id, _, _ := strings.Cut(grant, ":")
	if runtime, ours := f.homes[id]; ours {
		return runtime
	}
	return -1
}

// excused reports whether a refusal tells nothing of who holds the lock: others of that process waited for it or were giving it back,
// it names nobody, or it names a grant that may be in Redis although nobody holds it.
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
	home := f.home(op.Holder)
	return slices.ContainsFunc(f.asked[op.Name], func(other *Op) bool {
		return other.Runtime == home && other.Call <= op.Return && op.Call <= other.Return+f.haunting()
	})
}

// haunting is for how long an acquire that has ended may have a grant in Redis: as remember says.
func (f *facts) haunting() time.Duration {
	return f.h.Setting.Longest + f.h.Setting.Longest/3 + slack
}

func (f *facts) crowded(op *Op) bool {
	return slices.ContainsFunc(f.ops[op.Name], func(other *Op) bool {
		asks := other.Do == doAcquire || other.Do == doTry || other.Do == doRelease
		return asks && other != op && other.Runtime == op.Runtime && other.Call <= op.Return && op.Call <= other.Return
	})
}

// anyDoubt reports whether a permit may be out that nobody holds. Redis takes it back ten seconds after its lease.
func (f *facts) anyDoubt(op *Op) bool {
	return slices.ContainsFunc(f.ops[op.Name], func(other *Op) bool {
		wrong := other.Result == isCancelled || other.Result == isUnknown || other.Result == isLost || other.Do == doLost
		return wrong && other.Call <= op.Return && op.Call <= other.Return+f.haunting()+10*time.Second
	})
}

// findForced finds the grants that may have been freed by force: those that were held, or asked for, at that time.
func (f *facts) findForced() {
	for name, ops := range f.ops {
		lives := map[string]*forcing{} // from the first word of a grant to the last
		for _, op := range ops {
			from := op.Call
			if op.isGrant() { // the attempt may have been sent for a waiter that has left since
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

// forcedOff are the uses of force that may have hit the grant of an operation.
func (f *facts) forcedOff(op *Op) []forcing { return f.force[op.Name][op.Grant] }
