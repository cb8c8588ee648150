package gateway

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
)

// line holds the calls that wait to be sent: first those that have priority, then the others, each in order of arrival. The cost per call does
// not depend on how many wait, not even in an outage.
type line struct {
	first, rest file
	sweepAt     time.Duration // when the next sweep is due
}

const (
	sweepCost  = 3 * time.Microsecond // the shortest time between two sweeps is this, times the number of waiting calls
	sweepLeast = time.Second          // the longest time between two sweeps, unless the shortest is longer; a sweep drops withdrawn calls
)

func (l *line) len() int { return len(l.first.waiting) + len(l.rest.waiting) }

func (l *line) push(call *rpc.Call) {
	if l.len() == 0 {
		l.sweepAt = call.Asked + sweepLeast
	}
	if call.First {
		l.first.push(call)
	} else {
		l.rest.push(call)
	}
	l.sweepAt = min(l.sweepAt, call.Expires(0))
}

// front returns the next call to be sent. The line must not be empty.
func (l *line) front() *rpc.Call {
	if len(l.first.waiting) > 0 {
		return l.first.waiting[0]
	}
	return l.rest.waiting[0]
}

// all removes and returns all calls, to be put in another line.
func (l *line) all() []*rpc.Call {
	calls := append(l.first.waiting, l.rest.waiting...)
	l.first, l.rest = file{}, file{}
	return calls
}

// pop removes and returns up to n calls that were not withdrawn, to be sent at this instant.
func (l *line) pop(n int, now, heard time.Duration) []*rpc.Call {
	calls := make([]*rpc.Call, 0, min(n, l.len()))
	return l.rest.pop(l.first.pop(calls, n, now, heard), n, now, heard)
}

// sweep removes and returns the calls whose time to wait is over, and drops withdrawn calls. heard is the instant at which Redis last answered.
func (l *line) sweep(now, heard time.Duration) (expired []*rpc.Call) {
	next := now + sweepLeast
	for _, f := range []*file{&l.first, &l.rest} {
		kept := f.waiting[:0]
		for _, call := range f.waiting {
			switch at := call.Expires(heard); {
			case call.Withdrawn():
			case at > now:
				kept = append(kept, call)
				next = min(next, at)
			case call.Expire(heard):
				expired = append(expired, call)
			}
		}
		clear(f.waiting[len(kept):])
		f.waiting = kept
	}
	l.sweepAt = max(next, now+time.Duration(l.len())*sweepCost)
	return expired
}

// file is a queue of calls. Its memory is used again when it is empty.
type file struct {
	waiting []*rpc.Call // a part of room
	room    []*rpc.Call
}

// roomMax is the size up to which the memory of an empty file is kept.
const roomMax = 2 * batchMax

func (f *file) push(call *rpc.Call) {
	if len(f.waiting) == 0 {
		f.waiting = f.room[:0]
	}
	room := cap(f.waiting)
	f.waiting = append(f.waiting, call)
	if cap(f.waiting) != room { // append has moved the calls to a larger array
		f.room = f.waiting
	}
}

// pop appends the calls that leave the line at this instant to calls, until calls has n of them or the file is empty.
func (f *file) pop(calls []*rpc.Call, n int, now, heard time.Duration) []*rpc.Call {
	for len(f.waiting) > 0 && len(calls) < n {
		if f.waiting[0].Leave(now, heard) {
			calls = append(calls, f.waiting[0])
		}
		f.waiting[0] = nil
		f.waiting = f.waiting[1:]
	}
	if len(f.waiting) == 0 && cap(f.room) > roomMax {
		*f = file{}
	}
	return calls
}
