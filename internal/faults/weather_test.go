package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/chaos"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// weather is many faults at the same time, none of which lasts for long.
type weather struct {
	cancel context.CancelFunc
	ctx    context.Context
	group  sync.WaitGroup
	client redis.UniversalClient

	killed, flushed atomic.Int64
	proxies         []*faultproxy.Proxy
}

func newWeather(t *testing.T, p *locktest.Place) *weather {
	s := &weather{client: p.Redis}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	t.Cleanup(s.end)
	return s
}

// flush makes the server forget its scripts every 50 ms.
func (s *weather) flush() {
	s.every(func() time.Duration { return 50 * time.Millisecond }, func() {
		if s.client.ScriptFlush(s.ctx).Err() == nil {
			s.flushed.Add(1)
		}
	})
}

// kill breaks connections for commands and for messages, but with pauses that leave time to use new ones.
func (s *weather) kill() {
	s.befall([]chaos.Fault{chaos.KilledSubscriptions, chaos.KilledClients, chaos.KilledClient}, chaos.Target{Redis: s.client}, &s.killed)
}

// over adds faults that lose replies on the way through a proxy.
func (s *weather) over(proxy *faultproxy.Proxy) {
	s.proxies = append(s.proxies, proxy)
	s.befall([]chaos.Fault{chaos.LostReplies, chaos.Silence}, chaos.Target{Link: proxy, Most: 50 * time.Millisecond}, new(atomic.Int64))
}

// befall injects random faults from the list, one after the other.
func (s *weather) befall(faults []chaos.Fault, at chaos.Target, count *atomic.Int64) {
	at.Dice = chaos.Dice()
	s.every(s.pause, func() {
		chaos.Choose(at.Dice, faults).Do(s.ctx, at)
		count.Add(1)
	})
}

// pause returns the time between two faults. It is longer on a busy machine, where locks need longer to make progress.
func (s *weather) pause() time.Duration {
	asked := time.Now()
	_ = s.client.Ping(s.ctx).Err()
	return rand.N(200*time.Millisecond) + 10*time.Since(asked)
}

func (s *weather) every(pause func() time.Duration, do func()) {
	s.group.Go(func() {
		for chaos.Pause(s.ctx, pause()) {
			do()
		}
	})
}

func (s *weather) end() {
	s.cancel()
	s.group.Wait()
	for _, proxy := range s.proxies {
		proxy.Heal()
	}
}

func (s *weather) String() string {
	lost := 0
	for _, proxy := range s.proxies {
		lost += proxy.Dropped()
	}
	return fmt.Sprintf("connections killed %d times, %d replies lost, scripts flushed %d times", s.killed.Load(), lost, s.flushed.Load())
}
