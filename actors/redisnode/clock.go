package redisnode

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Clock estimates the server's time from samples of it. The estimate is the server's time when it made the sample plus
// what has passed since the sample was received; the way of the sample is missing, so it errs towards early, that is towards
// a script that refuses to run rather than one that runs late.
type Clock struct {
	mu       sync.Mutex
	sampled  bool
	offset   time.Duration // server time since its epoch, minus our instant
	received time.Duration
}

// sampleFor is how long a sample is good for: clocks drift apart slowly, and a server whose clock is stepped says so with LATE.
const sampleFor = 10 * time.Second

// Known reports whether there is a sample.
func (s *Clock) Known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sampled
}

// Stale reports that a new sample is due.
func (s *Clock) Stale(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sampled && now-s.received > sampleFor
}

// At returns the server's time, in ms since its epoch, at one of our instants.
func (s *Clock) At(instant time.Duration) int64 { return s.Time(instant).Milliseconds() }

// Time returns the server's time since its epoch at one of our instants.
func (s *Clock) Time(instant time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offset + instant
}

// Observe takes the answer of a TIME command.
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

// Correct takes the server's time out of a LATE refusal.
func (s *Clock) Correct(ms int64, received time.Duration) {
	s.Set(time.Duration(ms)*time.Millisecond, received)
}

// Set takes a sample of the server's time.
func (s *Clock) Set(server, received time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset, s.received, s.sampled = server-received, received, true
}

// Peaks remembers, for each part of the keys, which of its masters' clocks was ahead of the others lately. Fencing tokens follow the
// clock of the master. After a failover that has lost the counter, to a master whose clock is behind, they follow the clock of the
// master before, for as long as that may matter: until the new clock has caught up.
type Peaks struct {
	mu     sync.Mutex
	ofPart map[uint16]peak
}

type peak struct {
	offset time.Duration // of the clock, as in serverClock
	seen   time.Duration // when that clock was last used
}

// peakFor is by how much the clocks of a master and its replicas may differ.
const peakFor = time.Minute

// Time returns the time at an instant by the clock that is ahead: the present master's, or that of one before it.
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
