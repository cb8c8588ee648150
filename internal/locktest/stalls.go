package locktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stalls measures for how long at most this process was not run, or did not reach its server. What is promised about
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
	client := NewClient(t, p.Addr)
	go s.watch(client)
	t.Cleanup(func() { close(s.Stop); <-s.Ended })
	return s
}

func (s *Stalls) watch(client *redis.Client) {
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
		_ = client.Ping(context.Background()).Err()
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
