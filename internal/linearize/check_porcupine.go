package linearize

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkModel asks porcupine for an order that explains the operations on each name (A7).
func (v *Verdict) checkModel(f *facts, patience time.Duration) {
	k := KindOf(f.h.Setting.Kind)
	for _, name := range f.h.Setting.Names {
		ops := operations(k, f, name)
		v.Checked += len(ops)
		switch result := v.order(k, ops, patience); result {
		case porcupine.Ok:
		case porcupine.Illegal:
			why := "its operations"
			if f.h.Setting.Mutant == "" {
				why = explain(k, ops)
			}
			v.wrong("A7: %s: no order explains %s", name, why)
		default:
			v.Inconclusive = append(v.Inconclusive, fmt.Sprintf("A7: %s: %d operations, no answer in %v", name, len(ops), patience))
		}
	}
}

// order asks porcupine about the whole history, and if that takes too long, about its parts.
func (v *Verdict) order(k Kind, ops []porcupine.Operation, patience time.Duration) porcupine.CheckResult {
	result := porcupine.CheckOperationsTimeout(model(k), ops, patience)
	if result != porcupine.Unknown {
		return result
	}
	for _, part := range cut(k, ops) {
		switch porcupine.CheckOperationsTimeout(part.model, part.ops, patience) {
		case porcupine.Illegal:
			return porcupine.Illegal
		case porcupine.Unknown:
			return porcupine.Unknown
		}
	}
	return porcupine.Ok
}

// operations returns the operations on a name that porcupine checks: those that have an effect or say something about the holder.
func operations(k Kind, f *facts, name string) (all []porcupine.Operation) {
	add := func(op *Op, begin, end time.Duration) {
		all = append(all, porcupine.Operation{ClientId: op.User, Input: op, Call: int64(begin), Return: int64(end)})
	}
	seen, lost := f.sightings(name), f.lostPlaces(name)
	granted := map[string]bool{} // by an earlier operation
	for _, op := range f.ops[name] {
		first := op.isGrant() && !granted[op.Grant]
		granted[op.Grant] = granted[op.Grant] || first
		op.anyPlace = lost[op.Grant]
		switch {
		case op.Do == doWrite:
		case op.Do != doAcquire && op.Do != doTry:
			add(op, op.Call, op.Return)
		case op.Result == isOK && k.Queued && !op.anyPlace:
			begin, end := seen[op.Grant].around(op)
			add(op, begin, end)
		case op.Result == isOK && first && len(f.forcedOff(op)) > 0: // the grant may have been released by force before any user had it
			add(op, min(op.Call, sentFor(op)), op.Return)
		case op.Result == isOK:
			add(op, begin(op), op.Return)
		case op.Do == doTry && op.Result == isBusy && !f.excused(k, op):
			add(op, op.Call, op.Return)
		}
	}
	if k.Queued {
		for _, op := range f.queueing(name, lost) {
			add(&op, op.Call, op.Return)
		}
	}
	slices.SortStableFunc(all, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	return all
}

// isGrant reports whether an operation has returned a lease.
func (o *Op) isGrant() bool { return o.Result == isOK && (o.Do == doAcquire || o.Do == doTry) }

// sentFor returns the instant at which the attempt that gave a grant its deadline was sent. The holder computes the deadline as that instant, plus
// the length of the lease, minus the margin.
func sentFor(op *Op) time.Duration { return op.Until - op.Length + margin(op.Length) }

// begin returns the first instant at which the model may place an acquire. It is the later of two instants: when the user called, and when the
// attempt that gave the grant its deadline was sent. An earlier attempt may have made Redis grant the lock before that. This makes no difference,
// because nobody else can have had the lock after that grant. For grants that may have been released by force, the function operations uses an
// earlier instant.
func begin(op *Op) time.Duration {
	return min(max(op.Call, sentFor(op)), op.Return)
}

// piece is a part of a history that begins and ends with nobody holding the lock.
type piece struct {
	model porcupine.Model
	ops   []porcupine.Operation
}

// cut divides a history at its quiet points, where no operation is in flight, no lease is held and the queue is empty. The pieces can be
// checked one by one, because at a quiet point the model knows only two things: the lock is free, and which token was the largest.
func cut(k Kind, ops []porcupine.Operation) (pieces []piece) {
	out := map[int]struct{}{}
	queue := map[string]struct{}{}
	var token int64
	var busyUntil int64
	first := 0
	begin := func(from, to int, token int64) {
		m := model(k)
		m.Init = func() any { return &state{token: token} }
		pieces = append(pieces, piece{m, ops[from:to]})
	}
	start := token
	for i := range ops {
		op := ops[i].Input.(*Op)
		if i > first && len(out) == 0 && len(queue) == 0 && ops[i].Call > busyUntil {
			begin(first, i, start)
			first, start = i, token
		}
		busyUntil = max(busyUntil, ops[i].Return)
		switch op.Do {
		case doEnter:
			for _, grant := range op.came {
				queue[grant] = struct{}{}
			}
		case doLeave:
			delete(queue, op.Grant)
		case doForce:
			busyUntil = max(busyUntil, int64(op.Return+10*time.Second)) // a deposed holder may not know of its loss for a while
		case doAcquire, doTry:
			if op.Result == isOK {
				out[op.Lease] = struct{}{}
				token = max(token, op.Token)
				delete(queue, op.Grant)
			}
		case doRelease:
			delete(out, op.Lease)
			if !k.Unforced {
				// Options.Linger may keep the grant for a quarter of its lease, and a forced release may hit it meanwhile.
				busyUntil = max(busyUntil, int64(op.Return+op.Length/4))
			}
		}
	}
	begin(first, len(ops), start)
	return pieces
}

// explain finds the first operation that no order explains, and shows it with the operations before it.
func explain(k Kind, ops []porcupine.Operation) string {
	const shown = 30
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) })
	low, high := 0, len(ops)
	for low < high {
		middle := (low + high) / 2
		if porcupine.CheckOperationsTimeout(model(k), until(ops, middle), 5*time.Second) == porcupine.Ok {
			low = middle + 1
		} else {
			high = middle
		}
	}
	var lines []string
	for i := min(low, len(ops)-1); i >= 0 && len(lines) < shown; i-- {
		op := ops[i].Input.(*Op)
		if op.Do != doValid || i == low || i+1 < len(ops) && op.Lease != ops[i+1].Input.(*Op).Lease {
			lines = append(lines, "\n  "+op.String())
		}
	}
	slices.Reverse(lines)
	return "the last of these:" + strings.Join(lines, "")
}

// until returns the operations that had returned when one operation returned. Of the operations that were in flight at that time, it adds only those
// that may make another operation possible, such as releases.
func until(ops []porcupine.Operation, last int) []porcupine.Operation {
	part := slices.Clone(ops[:last+1])
	for _, op := range ops[last+1:] {
		switch op.Input.(*Op).Do {
		case doRelease, doLost, doForce, doEnter, doLeave:
			if op.Call <= ops[last].Return {
				part = append(part, op)
			}
		}
	}
	return part
}

func (o *Op) String() string {
	text := fmt.Sprintf("%12v to %12v  runtime %d user %2d lease %d: %s %s %s", o.Call, o.Return, o.Runtime, o.User, o.Lease, o.Do, o.Mode, o.Result)
	for _, more := range []struct {
		word  string
		value any
		there bool
	}{
		{"grant", o.Grant, o.Grant != ""},
		{"owner", o.Owner, o.Owner != ""},
		{"names", o.Holder, o.Holder != ""},
		{"until", o.Until, o.Until != 0},
		{"token", o.Token, o.Token != 0},
		{"for", o.Length, o.Length != 0},
		{"error", o.Error, o.Error != ""},
		{"of", o.came, len(o.came) > 0},
	} {
		if more.there {
			text += fmt.Sprintf(" %s %v", more.word, more.value)
		}
	}
	return text
}
