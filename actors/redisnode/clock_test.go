package redisnode

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// After a failover to a master whose clock is behind, tokens follow the clock of the old master until the new one has caught up.
func TestPeaks_FollowTheClockThatWasAhead(t *testing.T) {
	t.Parallel()
	var p Peaks
	const before, behind = time.Hour, time.Hour - 3*time.Second
	assert.Equal(t, before+time.Second, p.Time(1, before, time.Second))
	assert.Equal(t, before+4*time.Second, p.Time(1, behind, 4*time.Second), "the time of the server before")
	assert.Equal(t, behind+4*time.Second, p.Time(2, behind, 4*time.Second), "for other keys, the earlier server does not count")
	last := time.Second + peakFor
	assert.Equal(t, behind+last, p.Time(1, behind, last), "only the present server's: it has caught up by now")
	assert.Equal(t, before+last, p.Time(1, before, last), "a clock that is ahead counts at once")
}
