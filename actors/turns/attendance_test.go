package turns

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// turn records one round of this process: its release notified the given number of subscribers, and `came` of them then had a turn.
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
		{"no process comes, but not for long enough", of(3, many(0)[1:]...), 0},
		{"no process comes", of(3, many(0)...), 3},
		{"all come", of(3, many(3)...), 0},
		{"one of three comes each time", of(3, many(1)...), 2},
		{"others have two turns at times", of(3, append(many(1), 2, 2, 1)...), 2},
		{"more come than expected", of(3, append(many(1), 2)...), 1},
		{"one process comes in every fourth turn", of(1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0), 0},
		{"a process that never came comes again and again", of(1, append(many(0), 1, 1, 1, 0)...), 0},
		{"more turns than were notified", of(2, append(many(0), 5)...), 0},
		{"nobody is notified any more", of(0, 0), 0},
	} {
		assert.Equal(t, c.mere, c.got.mere, c.what)
	}
}

// Processes that have left do not count as absent.
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
	assert.Equal(t, 0, a.mere, "earlier turns no longer count")
}

// A round counts only if a local waiter has waited meanwhile.
func TestAttendance_OnlyWhileWaiting(t *testing.T) {
	var a attendance
	for range 2 * len(a.absent) {
		a.released(1)
		a.conclude()
	}
	assert.Equal(t, 0, a.mere)
}

// If another process holds the lock when this process is refused, that process counts as having had a turn, whether or not its release message
// arrives.
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

// If this process gets a grant although another process is ahead, slots become longer. After goodMax grants without a process ahead, slots become
// shorter.
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
	assert.Equal(t, uint8(winsMax-1), turn(1), "a try has not waited, so it proves nothing")
}

// If slots have become longer, a short turn of the only other process makes them shorter again. They are halved repeatedly, but never below twice
// the length of that turn.
func TestYield_SlotsAfterQuickTurn(t *testing.T) {
	p := Policy{
		ServerTime: func(now time.Duration) time.Duration { return now }, Jitter: func(time.Duration) time.Duration { return 0 },
	}.WithTimes()
	const released = time.Minute + 500*time.Millisecond // far from a gap
	for turn, wins := range map[time.Duration]uint8{time.Microsecond: 0, 2 * time.Millisecond: 2, 7 * time.Millisecond: 4, 40 * time.Millisecond: 5} {
		y := Turns{wins: 5}
		y.After(&p, released, Ended{Sent: released - time.Millisecond, Receivers: 1})
		y.Hear(&p, released+turn, 1)
		assert.Equal(t, wins, y.wins, "a turn of %v", turn)
		assert.GreaterOrEqual(t, y.slot, min(2*turn, time.Millisecond<<5), "a turn of %v", turn)
	}
}

// After a turn whose grant has lingered, slots are longer, in proportion to the length of that turn, because the next turn may be as long.
func TestYield_SlotAfterLinger(t *testing.T) {
	p := Policy{
		ServerTime: func(now time.Duration) time.Duration { return now }, Jitter: func(time.Duration) time.Duration { return 0 },
	}.WithTimes()
	var missed uint8
	after := func(ended Ended) time.Duration {
		y := Turns{wins: missed}
		y.After(&p, time.Minute, ended)
		return y.slot
	}
	ended := Ended{Sent: time.Minute - time.Millisecond, Began: time.Minute - 320*time.Millisecond, Receivers: 1}
	assert.Equal(t, time.Millisecond, after(ended))
	ended.Lingered = true
	assert.Equal(t, 20*time.Millisecond, after(ended))
	missed = 1
	assert.Equal(t, 40*time.Millisecond, after(ended), "twice as long for a client that has missed its slot")
	ended.Began = 0
	assert.Equal(t, yieldMax, after(ended))
}

// After a turn whose grant has lingered, this process pauses for a slot even if Redis has counted no other subscriber. On a cluster with plain
// messages, a subscriber may be at another node, where it is not counted. The pause is no longer than a gap.
func TestYield_PauseAfterLinger(t *testing.T) {
	p := Policy{
		ServerTime: func(now time.Duration) time.Duration { return now }, Jitter: func(time.Duration) time.Duration { return 0 },
	}.WithTimes()
	const released = time.Minute + 500*time.Millisecond // far from a gap
	pause := func(turn time.Duration, lingered bool) time.Duration {
		y := Turns{gaps: gaps{last: released - turn, since: released - turn}}
		y.After(&p, released, Ended{Sent: released - time.Millisecond, Began: released - turn, Lingered: lingered})
		return y.OpensAt() - released
	}
	assert.Zero(t, pause(320*time.Millisecond, false))
	assert.Equal(t, 20*time.Millisecond, pause(320*time.Millisecond, true))
	assert.Equal(t, gap, pause(900*time.Millisecond, true))
}

// On a cluster, a process that subscribes after its release may still receive the message of that release. This message does not end the pause. The
// next message comes from another process's release, and ends the pause.
func TestYield_OwnMessageAfterSubscription(t *testing.T) {
	p := Policy{
		ServerTime: func(now time.Duration) time.Duration { return now }, Jitter: func(time.Duration) time.Duration { return 0 },
	}.WithTimes()
	const released = time.Minute + 500*time.Millisecond // far from a gap
	paused := func() (y Turns) {
		y.After(&p, released, Ended{Sent: released - 20*time.Millisecond, Receivers: 1})
		y.Joined(released + time.Millisecond)
		return y
	}
	y := paused()
	require.Greater(t, y.OpensAt(), released+2*time.Millisecond)
	assert.Equal(t, clock.Never, y.Hear(&p, released+time.Millisecond, 1))
	assert.Equal(t, released+2*time.Millisecond, y.Hear(&p, released+2*time.Millisecond, 1))
	y = paused()
	assert.Equal(t, y.OpensAt(), y.Hear(&p, y.OpensAt(), 1), "after the pause, each message counts")
}

// A newcomer lets a random number of the subscribers go first; without jitter, it lets all of them go first. Each release moves it one place
// forward.
func TestYield_NewcomersTakePlaces(t *testing.T) {
	p := Policy{
		ServerTime: func(now time.Duration) time.Duration { return now }, Jitter: func(time.Duration) time.Duration { return 0 },
	}.WithTimes()
	now := time.Minute + 500*time.Millisecond // far from a gap
	refused := func(y *Turns, subscribers int) {
		y.Refused(&p, now, Refusal{Sent: now - time.Millisecond, Longest: 10 * time.Millisecond, Subscribers: subscribers})
	}
	var y Turns
	refused(&y, 0)
	assert.True(t, y.AsksPlace(), "the number of subscribers is unknown")
	refused(&y, 4)
	assert.False(t, y.AsksPlace())
	assert.Equal(t, now+2*time.Millisecond, y.Hear(&p, now, 1), "three were ahead, and one of them has released the lock")
	refused(&y, 9)
	assert.Equal(t, now+time.Millisecond, y.Hear(&p, now, 1), "newer subscribers are behind")
	y.Joined(now)
	assert.False(t, y.AsksPlace(), "its place still counts")
	assert.Equal(t, now, y.Hear(&p, now, 1))
	assert.True(t, y.AsksPlace(), "if it is refused now, a crowd may have begun")
	y.Joined(now + time.Second)
	assert.True(t, y.AsksPlace())
	refused(&y, 1)
	assert.Equal(t, now, y.Hear(&p, now, 1), "there is no other process")
}

// If several processes compete, a count that is wrong by no more than a.doubt() does not change the estimate. If clearly more processes have a turn
// than expected, the estimate drops until the next round.
func TestAttendance_Doubt(t *testing.T) {
	var a attendance
	for range a.absent {
		a.turn(24, 4)
	}
	assert.Equal(t, 20, a.mere)
	a.turn(24, 6)
	assert.Equal(t, 20, a.mere)
	a.turn(24, 7)
	assert.Equal(t, 17, a.mere, "far more came than usual")
	a.turn(24, 4)
	assert.Equal(t, 20, a.mere)
}
