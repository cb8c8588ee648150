package faults_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// gap is the time from one call of lookAt to the next. A gap is long if this process or the server did not run for a while.
type gap struct{ from, to time.Time }

type gaps []gap

// longest returns the length of the longest gap that overlaps a span of time.
func (g gaps) longest(from, to time.Time) (longest time.Duration) {
	for _, one := range g {
		if one.to.After(from) && one.from.Before(to) {
			longest = max(longest, one.to.Sub(one.from))
		}
	}
	return longest
}

// cutReport sums up the tries.
type cutReport struct {
	tries, stalled, void int
	margin               time.Duration // the shortest time from a deadline to the server's expiry
	told                 []time.Duration
}

func (r *cutReport) String() string {
	if r.tries == 0 {
		return "no holder was ever seen"
	}
	slices.Sort(r.told)
	return fmt.Sprintf("%d tries (and %d void), %d of them with a long stall; from the deadline to Done: median %v, worst %v; "+
		"from the deadline to the server's expiry: at least %v",
		r.tries, r.void, r.stalled, r.told[len(r.told)/2], r.told[len(r.told)-1], r.margin)
}

// check checks the times of one try, after all tries have ended.
func (c *cutOff) check(t *testing.T, pauses gaps, report *cutReport) {
	t.Helper()
	c.doneAt = c.doneOr(t)
	if c.deadline.IsZero() || c.expiry.IsZero() {
		report.void++ // on a busy machine the lease may be lost before the first look
		return
	}
	stall := pauses.longest(c.deadline.Add(-10*time.Millisecond), c.doneAt)
	report.tries++
	report.told = append(report.told, c.doneAt.Sub(c.deadline))
	report.margin = min(report.margin, c.expiry.Sub(c.deadline))
	name := c.how + ", " + c.held

	assert.GreaterOrEqual(t, c.expiry.Sub(c.deadline), time.Duration(0), "%s: the deadline is earlier than the server's expiry", name)
	switch late := c.doneAt.Sub(c.goneAt); {
	case late <= 0:
	case stall > 10*time.Millisecond || late < locktest.Slack():
		report.stalled++
		assert.Less(t, late, 5*stall+locktest.Slack(), "%s: Done was closed after the key was gone; longest stall %v", name, stall)
	default:
		assert.Fail(t, "Done was closed after the key was gone", "%s: %v later; longest stall %v", name, late, stall)
	}
	assert.ErrorIs(t, c.lease.Err(), holdfast.ErrLeaseLost, name)
	assert.Less(t, c.goneAt.Sub(c.cutAt), 3*cutLease+5*stall+locktest.Slack(), "%s: the key was still renewed", name)
	if c.next != nil {
		select {
		case granted := <-c.next:
			assert.True(t, granted.After(c.deadline), name)
		case <-time.After(locktest.Patience):
			assert.Fail(t, "the next waiter waits for ever", name)
		}
	}
	locktest.Await(t, "the event", func() bool {
		return slices.ContainsFunc(locktest.Recorded[holdfast.LeaseLost](&c.events), func(e holdfast.LeaseLost) bool {
			return e.Lock() == c.Name
		})
	})
}

// doneOr returns the time at which the observer saw that Done was closed. If the observer has not seen it, doneOr waits until Done is closed.
func (c *cutOff) doneOr(t *testing.T) time.Time {
	if !c.doneAt.IsZero() {
		return c.doneAt
	}
	return locktest.Closed(t, "Done", c.lease.Done())
}
