package gateway

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/rpc"
)

func callAsked(at time.Duration, first bool) *rpc.Call {
	c := &rpc.Call{Timing: rpc.Patient(at, 2*time.Second, 10*time.Second)}
	c.First = first
	return c
}

// Calls with priority leave the line first. Each call leaves once, and its window counts from that instant.
func TestLine_Order(t *testing.T) {
	t.Parallel()
	var l line
	a, b, c, d := callAsked(0, false), callAsked(0, false), callAsked(0, true), callAsked(0, true)
	for _, call := range []*rpc.Call{a, b, c, d} {
		l.push(call)
	}
	assert.Equal(t, 4, l.len())
	assert.Same(t, c, l.front())
	assert.True(t, b.Withdraw())
	assert.Equal(t, []*rpc.Call{c, d}, l.pop(2, 5*time.Second, 0))
	assert.Equal(t, []*rpc.Call{a}, l.pop(2, 7*time.Second, 3*time.Second), "b has been withdrawn")
	assert.Zero(t, l.len())
	assert.False(t, a.Withdraw(), "it was sent")
	assert.Equal(t, 9*time.Second, a.Deadline)
	assert.Equal(t, 3*time.Second, a.Since, "until then Redis served the calls before it")
	assert.Zero(t, c.Since)
}

// A call expires when its patience has passed since the call was asked for, provided that Redis has been silent all that time. While Redis serves
// other calls, a call expires only if it is hasty (see rpc.Hasty).
func TestLine_Patience(t *testing.T) {
	t.Parallel()
	var l line
	early, late, hurried := callAsked(0, false), callAsked(4*time.Second, false), &rpc.Call{Timing: rpc.Hasty(0, 2*time.Second)}
	for _, call := range []*rpc.Call{early, late, hurried} {
		l.push(call)
	}
	assert.LessOrEqual(t, l.sweepAt, time.Second, "the line is swept for withdrawn calls")
	assert.Empty(t, l.sweep(time.Second, 0))
	assert.Equal(t, []*rpc.Call{hurried}, l.sweep(2*time.Second, 2*time.Second), "a hasty call expires although Redis answers")
	assert.Zero(t, hurried.Deadline)
	assert.Empty(t, l.sweep(11*time.Second, 2*time.Second), "Redis has answered meanwhile")
	assert.Equal(t, []*rpc.Call{early}, l.sweep(12*time.Second, 2*time.Second))
	assert.Equal(t, 2*time.Second, early.Since)
	assert.Equal(t, 13*time.Second, l.sweepAt)
	assert.True(t, late.Withdraw())
	assert.Empty(t, l.sweep(13*time.Second, 2*time.Second))
	assert.Zero(t, l.len())
}

// A long line is swept seldom, so that sweeping costs little.
func TestLine_SweepsSeldom(t *testing.T) {
	t.Parallel()
	var l line
	const many = 400_000
	for i := range many {
		l.push(callAsked(time.Duration(i), false)) // each expires at a different instant
	}
	assert.Empty(t, l.sweep(time.Second, 0))
	assert.GreaterOrEqual(t, l.sweepAt, time.Second+many*sweepCost)
}

// Each part of the line is first in, first out, no matter how calls come and leave. An empty part keeps little memory.
func TestLine_AgainstSlices(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var l line
	var first, rest []*rpc.Call
	check := func(n int) {
		var want []*rpc.Call
		fromFirst := min(n, len(first))
		want, first = append(want, first[:fromFirst]...), first[fromFirst:]
		fromRest := min(n-fromFirst, len(rest))
		want, rest = append(want, rest[:fromRest]...), rest[fromRest:]
		require.Len(t, want, n)
		require.Equal(t, want, l.pop(n, 0, 0))
	}
	for n := range 50_000 {
		switch {
		case random.IntN(100) >= 50+10*(n/10_000%2):
			if few := min(random.IntN(4), len(first)+len(rest)); few > 0 {
				check(few)
			}
		case random.IntN(2) == 0:
			first = append(first, callAsked(0, true))
			l.push(first[len(first)-1])
		default:
			rest = append(rest, callAsked(0, false))
			l.push(rest[len(rest)-1])
		}
		require.Equal(t, len(first)+len(rest), l.len())
	}
	check(len(first) + len(rest))
	assert.LessOrEqual(t, cap(l.first), roomMax)
	assert.LessOrEqual(t, cap(l.rest), roomMax)
}
