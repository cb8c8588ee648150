package locktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stalls measures for how long at most this process was not run, or did not reach its servers. What is promised about
// milliseconds can be seen only while both are well.
type Stalls struct {
	Stop  chan struct{}
	Ended chan struct{}

	Mu    sync.Mutex
	Worst time.Duration
}

// WatchStalls measures until the test ends.
func WatchStalls(t *testing.T, p *Place) *Stalls {
	s := &Stalls{Stop: make(chan struct{}), Ended: make(chan struct{})}
	go s.watch(p.everyClient(t))
	t.Cleanup(func() { close(s.Stop); <-s.Ended })
	return s
}

func (s *Stalls) watch(servers []*redis.Client) {
	defer close(s.Ended)
	const every = 5 * time.Millisecond
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for last := time.Now(); ; {
		select {
		case <-s.Stop:
			return
		case <-ticks.C:
		}
		for _, server := range servers {
			_ = server.Ping(context.Background()).Err()
		}
		now := time.Now()
		s.Mu.Lock()
		s.Worst = max(s.Worst, now.Sub(last)-every)
		s.Mu.Unlock()
		last = now
	}
}

// Take is the longest stall since it was asked for before.
func (s *Stalls) Take() time.Duration {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	worst := s.Worst
	s.Worst = 0
	return worst
}

// Slack is what may be added to a time that is promised, after the stalls since they were asked for before.
func (s *Stalls) Slack() time.Duration { return 50*time.Millisecond + 5*s.Take() + Slack() }
