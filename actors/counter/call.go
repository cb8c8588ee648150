package counter

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// countDone is the answer of a script call of this counter.
type countDone struct {
	call    *countCall
	class   scripts.Class
	err     error
	sent    time.Duration // the instant before the call was sent
	counted scripts.Counted
	expired bool // refused, because Redis may have forgotten an earlier copy's result
}

// news is what the holders of permits learn of an operation that ends some; nil: nothing.
func (m *countDone) news() any {
	op := m.call.op
	switch known := m.class == scripts.Done; {
	case !op.Ends, !known && m.class != scripts.Unknown, known && m.counted.Number == 0:
		return nil
	case known && op.Grants != nil:
		return wait.Freed{Grants: op.Grants, Reason: wait.ReleasedByItsID}
	}
	return wait.LookAround{}
}

// countCall is a script call that the step asks for.
type countCall struct {
	op     *scripts.CountOp
	raw    string // the counter's key
	terms  scripts.CountTerms
	copies *copies // of the same request
	task   *task   // nil: it is for those who wait

	rpc.Call // itself, on its way: the step sets its timing, the shell the rest

	done countDone // the shell's: its answer
}

// copies is what is known about the calls of one request. Redis keeps the request's result for its repeats, so running several has
// the effect of one.
type copies struct {
	request  string        // id; "": there is none
	answered []string      // requests whose results they delete
	call     *countCall    // the one on its way
	sent     time.Duration // the first one; 0: none yet
	stale    time.Duration // until then one without an answer may still run
	limit    int64         // server time, ms, after which the first one's result may be gone; 0: not known yet. The shell's
}

// recall takes back the call if it has not been sent. It reports that none is on its way.
func (c *copies) recall() bool {
	if c.call != nil && c.call.Withdraw() {
		c.call = nil
	}
	return c.call == nil
}

// disregard forgets the call, whatever comes of it.
func (c *copies) disregard() {
	if !c.recall() {
		c.stale = max(c.stale, c.call.Deadline)
		c.call = nil
	}
}
