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
	var server Clock
	server.Set(time.Hour, 0)
	assert.Equal(t, time.Hour+time.Second, p.Time(1, &server, time.Second))
	server.Set(time.Hour, 3*time.Second) // another server, three seconds behind
	assert.Equal(t, time.Hour+4*time.Second, p.Time(1, &server, 4*time.Second), "the time of the server before")
	assert.Equal(t, time.Hour+time.Second, p.Time(2, &server, 4*time.Second), "for other keys, the earlier server does not count")
	last := time.Second + peakFor
	assert.Equal(t, time.Hour+last-3*time.Second, p.Time(1, &server, last), "only the present server's: it has caught up by now")
	server.Set(time.Hour, 0)
	assert.Equal(t, time.Hour+last, p.Time(1, &server, last), "a clock that is ahead counts at once")
}
