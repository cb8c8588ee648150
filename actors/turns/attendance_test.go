package turns

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// turn counts one turn: so many were notified, so many came.
func (a *attendance) turn(notified, came int) {
	a.released(notified)
	a.waited = true
	a.heard(came)
	a.conclude()
}

func TestAttendance(t *testing.T) {
	of := func(notified int, came ...int) (a attendance) {
		for _, n := range came {
			a.turn(notified, n)
		}
		return a
	}
	many := func(came int) []int { return slices.Repeat([]int{came}, len(attendance{}.absent)) }
	for _, c := range []struct {
		what string
		got  attendance
		mere int
	}{
		{"nothing is known", attendance{}, 0},
		{"nobody comes, but not for long enough", of(3, many(0)[1:]...), 0},
		{"nobody comes", of(3, many(0)...), 3},
		{"all come", of(3, many(3)...), 0},
		{"one of three comes each time", of(3, many(1)...), 2},
		{"others have two turns at times", of(3, append(many(1), 2, 2, 1)...), 2},
		{"more come than expected", of(3, append(many(1), 2)...), 1},
		{"somebody comes in every fourth turn", of(1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0), 0},
		{"somebody who never came comes again and again", of(1, append(many(0), 1, 1, 1, 0)...), 0},
		{"more turns than were notified", of(2, append(many(0), 5)...), 0},
		{"nobody is notified any more", of(0, 0), 0},
	} {
		assert.Equal(t, c.mere, c.got.mere, c.what)
	}
}

// Those who have gone are not counted among those who do not come.
func TestAttendance_Leaves(t *testing.T) {
	var a attendance
	for range a.absent {
		a.turn(3, 0)
	}
	a.released(1)
	assert.Equal(t, 1, a.mere)
	a.released(0)
	assert.Equal(t, 0, a.mere)
	a.turn(1, 0)
	assert.Equal(t, 0, a.mere, "what was known before does not count")
}

// Nobody is judged by a time in which nobody here waited for him.
func TestAttendance_OnlyWhileWaiting(t *testing.T) {
	var a attendance
	for range 2 * len(a.absent) {
		a.released(1)
		a.conclude()
	}
	assert.Equal(t, 0, a.mere)
}

// Who has the lock when we are refused has come, whether his release is heard or not.
func TestAttendance_Refused(t *testing.T) {
	for _, heard := range []bool{false, true} {
		var a attendance
		a.released(1)
		a.taken = true
		if heard {
			a.heard(1)
		}
		a.conclude()
		assert.Equal(t, 1, a.came, "heard: %v", heard)
	}
}

// Slots get longer while somebody does not make it in his, and shorter again after a while in which everybody does.
func TestYield_Slots(t *testing.T) {
	y := Turns{until: 1, fresh: time.Hour}
	p := Policy{ServerTime: func(now time.Duration) time.Duration { return now }}.WithTimes()
	turn := func(ahead int) uint8 {
		y.ahead = ahead
		y.Won(&p, 1, 1)
		return y.wins
	}
	for wins := range uint8(winsMax) {
		assert.Equal(t, wins+1, turn(1))
	}
	assert.Equal(t, uint8(winsMax), turn(1))
	for range goodMax - 1 {
		assert.Equal(t, uint8(winsMax), turn(0))
	}
	assert.Equal(t, uint8(winsMax-1), turn(0))
	y.until = 0
	assert.Equal(t, uint8(winsMax-1), turn(1), "a try has waited for nobody")
}
