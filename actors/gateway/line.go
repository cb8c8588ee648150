package gateway

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
)

// line is where calls wait to be sent: first those that have priority, then the others, each in order of arrival. The cost per call does
// not depend on how many wait, not even in an outage.
type line struct {
	first, rest []*rpc.Call
	sweepAt     time.Duration // when the next sweep is due
}

const (
	sweepCost  = 3 * time.Microsecond // times the number of waiting calls: the least time between two sweeps
	sweepLeast = time.Second          // the most time between two sweeps, so that withdrawn calls are dropped
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

// all removes and returns all calls, to be put in another line.
func (l *line) all() []*rpc.Call {
	calls := append(l.first, l.rest...)
	l.first, l.rest = nil, nil
	return calls
}

// pop removes and returns up to n calls that were not withdrawn, to be sent at this instant.
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

// sweep removes and returns the calls whose time to wait is over. Redis last answered at heard.
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
