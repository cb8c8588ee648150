package gateway

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
)

// roomMax limits the memory that an empty part of the line keeps. If the part has room for more calls than roomMax, its memory is freed.
const roomMax = 2 * batchMax

// line holds the calls that wait to be sent. All calls with priority come before the others; within each of these two parts, calls are in order of
// arrival. When a batch leaves, the remaining calls are moved forward in memory. Even with a hundred thousand waiting calls, moving them costs less
// than sending the batch.
type line struct {
	first, rest []*rpc.Call
	sweepAt     time.Duration // when the next sweep is due
}

const (
	sweepCost  = 3 * time.Microsecond // minimum time between two sweeps, per waiting call: 0.3 s if 100 000 calls wait
	sweepLeast = time.Second          // a sweep is due after this time even if no call expires, because a sweep also drops withdrawn calls
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

// front returns the next call to be sent. The line must not be empty.
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

// pop removes and returns the next calls, at most n, for a batch that is sent at the instant `now`. It drops withdrawn calls.
func (l *line) pop(n int, now, heard time.Duration) []*rpc.Call {
	calls := make([]*rpc.Call, 0, min(n, l.len()))
	for _, part := range []*[]*rpc.Call{&l.first, &l.rest} {
		left := 0
		for ; left < len(*part) && len(calls) < n; left++ {
			if call := (*part)[left]; call.Leave(now, heard) {
				calls = append(calls, call)
			}
		}
		if *part = slices.Delete(*part, 0, left); len(*part) == 0 && cap(*part) > roomMax {
			*part = nil
		}
	}
	return calls
}

// sweep removes and returns the calls whose time to wait is over, and drops withdrawn calls. heard is the instant at which Redis last answered.
func (l *line) sweep(now, heard time.Duration) (expired []*rpc.Call) {
	next := now + sweepLeast
	for _, part := range []*[]*rpc.Call{&l.first, &l.rest} {
		kept := (*part)[:0]
		for _, call := range *part {
			switch at := call.Expires(heard); {
			case call.Withdrawn():
			case at > now:
				kept = append(kept, call)
				next = min(next, at)
			case call.Expire(heard):
				expired = append(expired, call)
			}
		}
		clear((*part)[len(kept):])
		*part = kept
	}
	l.sweepAt = max(next, now+time.Duration(l.len())*sweepCost)
	return expired
}
