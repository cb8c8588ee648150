package gateway

import "time"

// line is where calls wait to be sent: those that go first, then the others, each in the order in which they came. It costs the same per
// call however many wait, also in an outage.
type line struct {
	first, rest []*Call
	sweepAt     time.Duration // when sweep has something to do, or later
}

const (
	sweepCost  = 3 * time.Microsecond // a sweep comes at least that much later, for each call that waits, than the one before
	sweepLeast = time.Second          // and at least that often, to let go of calls that were withdrawn
)

func (l *line) len() int { return len(l.first) + len(l.rest) }

func (l *line) push(call *Call) {
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
func (l *line) front() *Call {
	if len(l.first) > 0 {
		return l.first[0]
	}
	return l.rest[0]
}

// all takes out the calls as they are, to stand in another line.
func (l *line) all() []*Call {
	calls := append(l.first, l.rest...)
	l.first, l.rest = nil, nil
	return calls
}

// pop takes up to n calls that are still wanted, to be sent at this instant.
func (l *line) pop(n int, now, heard time.Duration) (calls []*Call) {
	l.first, calls = take(l.first, calls, n, now, heard)
	l.rest, calls = take(l.rest, calls, n, now, heard)
	return calls
}

func take(from, to []*Call, n int, now, heard time.Duration) (left, calls []*Call) {
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
func (l *line) sweep(now, heard time.Duration) (expired []*Call) {
	next := now + sweepLeast
	for _, q := range []*[]*Call{&l.first, &l.rest} {
		kept := (*q)[:0]
		for _, call := range *q {
			switch at := call.Expires(heard); {
			case call.claimed.Load(): // it was withdrawn
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

// Leave takes a call out of the line to be sent at this instant. Redis was heard last at the other. It fails if the call was withdrawn.
func (c *Call) Leave(now, heard time.Duration) bool {
	c.NotAfter, c.Deadline = c.SentAt(now)
	return c.Expire(heard)
}

// Expire takes a call out of the line that is never to be sent. It fails if the call was withdrawn.
func (c *Call) Expire(heard time.Duration) bool {
	c.Since = max(c.Asked, heard)
	return c.claimed.CompareAndSwap(false, true)
}

// Withdraw takes back a call that has not been sent. Nothing comes of it then, not even an answer. Else it is too late: it may be
// executed until its deadline, and will be answered.
func (c *Call) Withdraw() bool { return c.claimed.CompareAndSwap(false, true) }
