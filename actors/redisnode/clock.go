package redisnode

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Clock estimates the server's time from samples of it. The estimate is the time in the sample plus the time since the sample was received. The
// server took the sample before this process received it, so the estimate may be behind the server's clock, but is never ahead
// of it. That is the safe side: the server may refuse a call a little early, but it never executes a call too late.
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

// Stale reports whether the sample is so old that a new one is due.
func (s *Clock) Stale(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sampled && now-s.received > sampleFor
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

// Peaks remembers for each part of the cluster which clock was furthest ahead lately: the present master's, or a previous master's. Fencing tokens
// are made from the clock of the master. A failover may lose the counter of tokens and lead to a master whose clock is behind. Then tokens continue
// from the clock of the previous master until the new clock has caught up, so that no token is smaller than an earlier one.
type Peaks struct {
	mu     sync.Mutex
	ofPart map[uint16]peak
}

type peak struct {
	offset time.Duration // the offset of the clock, as in Clock
	seen   time.Duration // when that clock was last used
}

// peakFor is how long tokens continue from the clock of a previous master after a failover. If the clocks of a master and its replica differ by more
// than that, tokens may be out of order after a failover.
const peakFor = time.Minute

// Time converts an instant to the server's time, by the clock that is ahead: the present master's, or a previous master's.
func (p *Peaks) Time(part uint16, present *Clock, instant time.Duration) time.Duration {
	offset := present.Time(0)
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
