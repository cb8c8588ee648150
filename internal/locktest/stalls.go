package locktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stalls measures the longest time for which this process did not run, or did not reach its servers. Promises about milliseconds can be
// checked only without such stalls.
type Stalls struct {
	stop, ended chan struct{}

	mu    sync.Mutex
	worst time.Duration
	last  time.Time // when the last round of pings ended
}

const stallsEvery = 5 * time.Millisecond

// WatchStalls measures the stalls of this process and the place's servers until the test ends.
func WatchStalls(t *testing.T, p *Place) *Stalls {
	s := NewStalls(p.everyClient(t)...)
	t.Cleanup(s.End)
	return s
}

// NewStalls measures the stalls of this process and these servers until End.
func NewStalls(servers ...*redis.Client) *Stalls {
	s := &Stalls{stop: make(chan struct{}), ended: make(chan struct{}), last: time.Now()}
	go s.watch(servers)
	return s
}

// End ends the measurement. No other method may be called afterwards.
func (s *Stalls) End() { close(s.stop); <-s.ended }

func (s *Stalls) watch(servers []*redis.Client) {
	defer close(s.ended)
	ticks := time.NewTicker(stallsEvery)
	defer ticks.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticks.C:
		}
		for _, server := range servers {
			_ = server.Ping(context.Background()).Err()
		}
		s.mu.Lock()
		s.note()
		s.last = time.Now()
		s.mu.Unlock()
	}
}

// note updates the longest stall. A stall that has not ended counts with its length so far.
func (s *Stalls) note() { s.worst = max(s.worst, time.Since(s.last)-stallsEvery) }

// Worst returns the longest stall since the last Take, including the present one.
func (s *Stalls) Worst() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note()
	return s.worst
}

// Take returns the longest stall since the last Take.
func (s *Stalls) Take() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note()
	worst := s.worst
	s.worst = 0
	return worst
}

// Slack returns how much a test may add to a promised time because of the longest stall since the last Take. Slack calls Take itself.
func (s *Stalls) Slack() time.Duration { return 50*time.Millisecond + 5*s.Take() + Slack() }
