package redisnode

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Clock estimates the server's time from a sample, which is the server's time in a reply. The estimate is the sample plus the time since the reply
// was received. The server took the sample before this process received the reply, so the estimate may be behind the server's clock, but is never
// ahead of it. The deadlines in calls are made from the estimate, so the server may refuse a call a little early, but never executes a call too late.
type Clock struct {
	mu       sync.Mutex
	sampled  bool
	offset   time.Duration // the server's Unix time, minus this process's instant
	received time.Duration
}

// sampleFor is the age at which a new sample is due. The old sample is used until the new one has arrived. A sample of that age is good enough:
// clocks drift apart slowly, and a server whose clock was stepped forward says so with a LATE refusal.
const sampleFor = 10 * time.Second

// Known reports whether there is a sample.
func (s *Clock) Known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sampled
}

// Read returns the server's Unix time at the instant 0 of this process. It also reports whether the sample is so old that a new one is due.
func (s *Clock) Read(now time.Duration) (offset time.Duration, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offset, s.sampled && now-s.received > sampleFor
}

// Time converts an instant of this process to the server's Unix time.
func (s *Clock) Time(instant time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offset + instant
}

// Observe takes a sample from the reply of a TIME command.
func (s *Clock) Observe(c Command, received time.Duration) error {
	reply, err := c.Slice()
	if err != nil {
		return err
	}
	var parts [2]int64
	for i := range parts {
		if len(reply) != len(parts) {
			return fmt.Errorf("unexpected reply of TIME: %.100q", fmt.Sprint(reply))
		}
		text, _ := reply[i].(string)
		if parts[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("unexpected reply of TIME: %.100q", fmt.Sprint(reply))
		}
	}
	s.Set(time.Duration(parts[0])*time.Second+time.Duration(parts[1])*time.Microsecond, received)
	return nil
}

// Correct takes a sample from a LATE refusal, which carries the server's time.
func (s *Clock) Correct(ms int64, received time.Duration) {
	s.Set(time.Duration(ms)*time.Millisecond, received)
}

// Set takes a sample of the server's time.
func (s *Clock) Set(server, received time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset, s.received, s.sampled = server-received, received, true
}

// Peaks remembers, for each slot of the cluster, the clock that was furthest ahead in the last minute (peakFor): the clock of the present master or
// of a previous one. Fencing tokens are made from the master's clock. A failover may lose the counter of tokens, and the clock of the new master may
// be behind. Tokens then follow the clock of the previous master until the new master's clock has caught up, so no token is smaller than an earlier
// one.
type Peaks struct {
	mu     sync.Mutex
	ofPart map[uint16]peak
}

type peak struct {
	offset time.Duration // the offset of the clock, as in Clock
	seen   time.Duration // when that clock was last used
}

// peakFor is the time after a failover for which tokens follow the clock of the previous master. If the clock of the new master is behind by more
// than peakFor, it has not caught up by then, and new tokens may be smaller than earlier ones.
const peakFor = time.Minute

// Time converts an instant to the server's time. It uses the clock that is furthest ahead: the present master's, whose offset is given, or a
// previous master's.
func (p *Peaks) Time(part uint16, offset, instant time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ofPart == nil {
		p.ofPart = map[uint16]peak{}
	}
	if before, known := p.ofPart[part]; known && before.offset > offset && instant-before.seen < peakFor {
		return before.offset + instant
	}
	p.ofPart[part] = peak{offset, instant}
	return offset + instant
}
