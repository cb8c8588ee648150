package actors

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// serverClock estimates the server's time from samples of it. The estimate is the server's time when it made the sample plus
// what has passed since the sample was received; the way of the sample is missing, so it errs towards early, that is towards
// a script that refuses to run rather than one that runs late.
type serverClock struct {
	mu       sync.Mutex
	sampled  bool
	offset   time.Duration // server time since its epoch, minus our instant
	received time.Duration
}

// sampleFor is how long a sample is good for: clocks drift apart slowly, and a server whose clock is stepped says so with LATE.
const sampleFor = 10 * time.Second

func (s *serverClock) known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sampled
}

// stale reports that a new sample is due.
func (s *serverClock) stale(now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sampled && now-s.received > sampleFor
}

// at is the server's time, in ms, at one of our instants.
func (s *serverClock) at(instant time.Duration) int64 { return s.time(instant).Milliseconds() }

// time is the server's time, since its epoch, at one of our instants.
func (s *serverClock) time(instant time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offset + instant
}

// observe takes the answer of a TIME command.
func (s *serverClock) observe(c command, received time.Duration) error {
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
	s.set(time.Duration(parts[0])*time.Second+time.Duration(parts[1])*time.Microsecond, received)
	return nil
}

// correct takes the server's time out of a LATE refusal.
func (s *serverClock) correct(ms int64, received time.Duration) {
	s.set(time.Duration(ms)*time.Millisecond, received)
}

func (s *serverClock) set(server, received time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset, s.received, s.sampled = server-received, received, true
}

// peaks remembers, for each part of the keys, which of its masters' clocks was ahead of the others lately. Fencing tokens follow the
// clock of the master. After a failover that has lost the counter, to a master whose clock is behind, they follow the clock of the
// master before, for as long as that may matter: until the new clock has caught up.
type peaks struct {
	mu     sync.Mutex
	ofPart map[uint16]peak
}

type peak struct {
	offset time.Duration // of the clock, as in serverClock
	seen   time.Duration // when that clock was last used
}

// peakFor is by how much the clocks of a master and its replicas may differ.
const peakFor = time.Minute

// time is the time at an instant of the clock that is ahead: that of the present master, or of one before it.
func (p *peaks) time(part uint16, present *serverClock, instant time.Duration) time.Duration {
	offset := present.time(0)
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
