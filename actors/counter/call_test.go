package counter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

// A process that was stopped for a minute repeats a request. Redis has not kept the result of the first copy for that long. Even if the
// estimate of the server's clock is corrected meanwhile, no copy may run any more, because Redis would execute the request twice.
func TestCountCall_NoCopyRunsWhenRedisMayHaveForgotten(t *testing.T) {
	t.Parallel()
	const server, keep = 1_700_000_000_000 * time.Millisecond, 40 * time.Second
	site := &scripts.Site{}
	var start time.Duration // the server's time at this process's instant 0, as this process estimates it, or 0 if unknown
	at := func(_ string, instant time.Duration) (int64, bool) {
		return (start + instant).Milliseconds(), start > 0
	}
	c := &copies{request: "u:1", sent: time.Second}
	call := &countCall{op: scripts.SemaphoreRelease, raw: "orders", terms: scripts.CountTerms{Request: "u:1", Numbers: []int64{1}, Keep: keep}, copies: c}

	assert.Zero(t, call.ScriptCall(site, at).Limit, "the server's clock is not known before the first call")
	start = server
	limit := (server + time.Second + keep - limitMargin).Milliseconds()
	assert.Equal(t, limit, call.ScriptCall(site, at).Limit)

	start = server + time.Minute // corrected
	script := call.ScriptCall(site, at)
	script.SetNotAfter((server + 2*time.Minute).Milliseconds())
	assert.Equal(t, []any{limit}, script.Command[len(script.Command)-4:len(script.Command)-3])

	refusal := func(at int64) countDone {
		return call.read(&rpc.Result{Class: scripts.Refused, Err: errors.New(fmt.Sprint("LATE ", at))})
	}
	assert.False(t, refusal(limit-1).expired, "late for another reason: a repeat is in time")
	assert.True(t, refusal(limit+1).expired)
}

// A call also deletes the results of earlier requests. If undo withdraws the call, Redis never executes it. If the call has been sent, Redis may not
// have executed it. In both cases the next call that changes something deletes those results.
func TestUndo_LeavesResultsToTheNextCall(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		policy := wait.Policy{NewID: func() string { return "u:2" }}
		s := New(&policy, &lease.Address{Kind: scripts.Semaphore, Name: "orders", Raw: "orders"})
		c := copies{request: "u:1", answered: []string{"u:0"}, call: &countCall{}}
		if sent {
			c.call.Leave(0, 0)
		}
		s.undo(scripts.SemaphoreAcquire, &c)
		assert.Equal(t, []string{"u:0"}, s.answered)
	}
}
