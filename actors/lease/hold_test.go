package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/protocol"
)

// Local holders of one turn use the same grant, one after the other. When a lease has ended, it is not valid any more, even if the grant continues
// with the next holder.
func TestHold_EndsWithItsHolderWhenTheGrantGoesOn(t *testing.T) {
	grant := newTestGrant(Deadline(0, time.Second))
	first, second, third := &Hold{Grant: grant}, &Hold{Grant: grant}, &Hold{Grant: grant}
	assert.True(t, first.Claim())
	assert.True(t, second.Lose(protocol.ErrLeaseLost, ""))

	assert.Zero(t, first.Until())
	assert.False(t, first.Valid(0))
	assert.Zero(t, second.Until())
	assert.False(t, second.Valid(0))
	assert.Equal(t, 988*time.Millisecond, third.Until())
	assert.True(t, third.Valid(0))
}

// A hold ends once: by its holder or by the lock actor, whoever comes first.
func TestHold_EndsOnce(t *testing.T) {
	for _, claimFirst := range []bool{true, false} {
		var ends []error
		h := &Hold{}
		done := h.Done()
		h.OnEnd(func(err error) { ends = append(ends, err) })
		want := protocol.ErrNotHeld
		if claimFirst {
			assert.True(t, h.Claim())
			assert.False(t, h.Lose(protocol.ErrLeaseLost, ""))
		} else {
			want = protocol.ErrLeaseLost
			assert.True(t, h.Lose(protocol.ErrLeaseLost, ""))
			assert.False(t, h.Claim())
		}
		<-done
		<-h.Done()
		h.OnEnd(func(err error) { ends = append(ends, err) })
		assert.Equal(t, []error{want, want}, ends)
		assert.Equal(t, want, h.Err())
	}
}
