package turns

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// If several other processes acquire the lock one after the other, slots become as long as turns.
func TestPatience(t *testing.T) {
	const turn, others = 8 * time.Millisecond, 3
	inVain := func(w *patience, holder string) time.Duration {
		w.early = true
		w.refused(holder)
		return w.slot(time.Millisecond, others)
	}
	start := func() (w patience) {
		for now := time.Minute; now < time.Minute+30*turn; now += turn {
			w.heard(now)
		}
		assert.Equal(t, turn, w.turn, "the first release says nothing about the turn before it")
		for _, holder := range []string{"a", "b", "c", "d"} { // the first refusal proves nothing; three more are normal, one for each other process
			assert.Equal(t, time.Millisecond, inVain(&w, holder), holder)
		}
		return w
	}
	w := start()
	for i, holder := range []string{"b", "c", "d", "e"} {
		assert.Equal(t, min(time.Millisecond<<(i+1), w.turn*5/4), inVain(&w, holder), holder)
	}
	assert.Equal(t, 2*turn, w.slot(2*turn, others), "never shorter")
	w.refused("f")
	assert.Equal(t, 7, w.vain, "an attempt that let nobody go first was not in vain")
	assert.Equal(t, w.turn*5/4, inVain(&w, ""), "nothing follows from an unknown holder")
	w.early = true
	w.won(false)
	assert.Equal(t, time.Millisecond, w.slot(time.Millisecond, others), "somebody ahead has stopped waiting")

	w = start()
	assert.Equal(t, 2*time.Millisecond, inVain(&w, "b"))
	assert.Equal(t, time.Millisecond, inVain(&w, "b"), "the same process again: the others ahead do not try")

	w = start()
	assert.Equal(t, 2*time.Millisecond, inVain(&w, "b"))
	w.won(false)
	assert.Equal(t, 2*time.Millisecond, inVain(&w, "b"), "a turn of ours was in between")
	w.won(true)
	assert.Equal(t, time.Millisecond, w.slot(time.Millisecond, others), "there are mere listeners")
}

// However many processes are ahead, a process tries after a second at the latest, because all of them may have stopped waiting at once.
func TestYield_AsksWithinASecond(t *testing.T) {
	p := Policy{
		ServerTime: func(now time.Duration) time.Duration { return now }, Jitter: func(below time.Duration) time.Duration { return max(below-1, 0) },
	}.WithTimes()
	now := time.Minute
	y := Turns{patience: patience{turn: time.Second, vain: 100}}
	y.After(&p, now, Ended{Sent: now - time.Millisecond, Began: now - 10*time.Millisecond, Longest: 10 * time.Millisecond, Receivers: 2000, Listens: true})
	assert.Equal(t, 1999, y.ahead)
	assert.LessOrEqual(t, y.OpensAt()-now, time.Second)
}
