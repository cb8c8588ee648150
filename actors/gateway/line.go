package gateway

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
)

// line is where calls wait to be sent: those that go first, then the others, each in the order in which they came. It costs the same per
// call however many wait, also in an outage.
type line struct {
	first, rest []*rpc.Call
	sweepAt     time.Duration // when sweep has something to do, or later
}

const (
	sweepCost  = 3 * time.Microsecond // a sweep comes at least that much later, for each call that waits, than the one before
	sweepLeast = time.Second          // and at least that often, to let go of calls that were withdrawn
)

func (l *line) len() int { return len(l.first) + len(l.rest) }

func (l *line) push(call *rpc.Call) {
	if l.len() == 0 {
		l.sweepAt = call.Asked + sweepLeast
	}
	if call.First {
		l.first = append(l.first, call)
	} else {
		l.rest = append(l.rest, call)
	}
	l.sweepAt = min(l.sweepAt, call.Expires(0))
}

// front is the next call to be sent. There must be one.
func (l *line) front() *rpc.Call {
	if len(l.first) > 0 {
		return l.first[0]
	}
	return l.rest[0]
}

// all takes out the calls as they are, to stand in another line.
func (l *line) all() []*rpc.Call {
	calls := append(l.first, l.rest...)
	l.first, l.rest = nil, nil
	return calls
}

// pop takes up to n calls that are still wanted, to be sent at this instant.
func (l *line) pop(n int, now, heard time.Duration) (calls []*rpc.Call) {
	l.first, calls = take(l.first, calls, n, now, heard)
	l.rest, calls = take(l.rest, calls, n, now, heard)
	return calls
}

func take(from, to []*rpc.Call, n int, now, heard time.Duration) (left, calls []*rpc.Call) {
	for len(from) > 0 && len(to) < n {
		if from[0].Leave(now, heard) {
			to = append(to, from[0])
		}
		from[0] = nil
		from = from[1:]
	}
	return from, to
}

// sweep takes out the calls whose time to wait is over. Redis was heard last at this instant.
func (l *line) sweep(now, heard time.Duration) (expired []*rpc.Call) {
	next := now + sweepLeast
	for _, q := range []*[]*rpc.Call{&l.first, &l.rest} {
		kept := (*q)[:0]
		for _, call := range *q {
			switch at := call.Expires(heard); {
			case call.Withdrawn():
			case at > now:
				kept = append(kept, call)
				next = min(next, at)
			case call.Expire(heard):
				expired = append(expired, call)
			}
		}
		clear((*q)[len(kept):])
		*q = kept
	}
	l.sweepAt = max(next, now+time.Duration(l.len())*sweepCost)
	return expired
}
