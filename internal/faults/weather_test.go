package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// weather is many faults at a time, none of which lasts for long.
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

// flush has the server forget its scripts every 50 ms.
func (s *weather) flush() {
	s.every(func() time.Duration { return 50 * time.Millisecond }, func() {
		if s.client.ScriptFlush(s.ctx).Err() == nil {
			s.flushed.Add(1)
		}
	})
}

// kill breaks connections, for commands and for messages; not so often that none lives long enough to be of use.
func (s *weather) kill() {
	s.every(s.pause, s.killSome)
}

// over has the replies behind a proxy be lost, too.
func (s *weather) over(proxy *faultproxy.Proxy) {
	s.proxies = append(s.proxies, proxy)
	s.every(s.pause, func() {
		if rand.IntN(2) == 0 {
			proxy.DropReplies(1)
		} else {
			proxy.SwallowReplies(true)
		}
		s.wait(rand.N(50 * time.Millisecond))
		proxy.Heal() // an order that stays would await whoever comes after a pause, each time
	})
}

// pause is the time between two faults: longer on a busy machine, where a lock needs longer between them to get anywhere.
func (s *weather) pause() time.Duration {
	asked := time.Now()
	_ = s.client.Ping(s.ctx).Err()
	return rand.N(200*time.Millisecond) + 10*time.Since(asked)
}

// killSome ends one connection, or all of one sort.
func (s *weather) killSome() {
	filter := []string{"TYPE", []string{"normal", "pubsub"}[rand.IntN(2)]}
	if rand.IntN(2) == 0 {
		if id := s.someone(); id != "" {
			filter = []string{"ID", id}
		}
	}
	s.killed.Add(s.client.ClientKillByFilter(s.ctx, filter...).Val())
}

// someone is the id of a connection of somebody else.
func (s *weather) someone() string {
	var ids []string
	for line := range strings.Lines(s.client.ClientList(s.ctx).Val()) {
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		if !strings.Contains(rest, "cmd=client") {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return ids[rand.IntN(len(ids))]
}

func (s *weather) every(pause func() time.Duration, do func()) {
	s.group.Go(func() {
		for s.wait(pause()) {
			do()
		}
	})
}

// wait is false when the weather is fine again.
func (s *weather) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
		return false
	}
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
	return fmt.Sprintf("%d connections killed, %d replies lost, scripts flushed %d times", s.killed.Load(), lost, s.flushed.Load())
}
