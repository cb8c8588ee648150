package promises_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// While links are slow, break and lose replies, there is never more than one leader. When the links have healed, every candidate learns of the
// leader that stays.
func TestElection_BadLinks(t *testing.T) {
	t.Parallel()
	place := locktest.Somewhere(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	runtimes, proxies := make([]*holdfast.Runtime, 3), make([]*faultproxy.Proxy, 3)
	for i := range runtimes {
		runtimes[i], proxies[i] = place.Proxied(t, holdfast.Options{Lease: locktest.Unhurried(time.Second)})
	}
	p := newParliament(t, place.Name, holdfast.ElectionOptions{}, runtimes...)
	p.campaign()
	for range locktest.Scaled(100, 8) {
		m := p.elected()
		bad := proxies[random.IntN(len(proxies))]
		bad.Disturb(random, 3*time.Millisecond)
		m.finish()
		p.elected().finish()
		bad.Heal()
	}
	p.settled(t)
}

// finish ends a term, unless it has already ended.
func (m *mandate) finish() {
	select {
	case m.end <- nil:
	case <-m.ctx.Done():
	}
}

// settled waits until every candidate has seen the leader. If another leader is elected meanwhile, the remaining candidates must see that leader.
func (p *parliament) settled(t *testing.T) {
	m := p.elected()
	for _, c := range p.candidates {
		locktest.Await(t, c.value+" to be notified of "+m.value, func() bool {
			select {
			case another := <-p.begun:
				m = another
			default:
			}
			leader, err := c.Leader(context.Background())
			return err == nil && leader.Token == m.Token
		})
	}
}

// If Redis fails over to a replica that has the lock, an election continues. Either the leader keeps the leadership, or another candidate is
// elected and every candidate learns of the new leader.
func TestElection_FailoverOfRedis(t *testing.T) {
	t.Parallel()
	type setup struct {
		client   func(t *testing.T) redis.UniversalClient
		master   func() *redistest.Server
		failOver func()
	}
	for name, start := range map[string]func(t *testing.T, key string) setup{
		"sentinel": func(t *testing.T, _ string) setup {
			g := redistest.StartGuarded(t, time.Second)
			return setup{func(t *testing.T) redis.UniversalClient { return g.Client(t) }, g.Master, g.FailOver}
		},
		"cluster": func(t *testing.T, key string) setup {
			c := redistest.StartCluster(t, 3, 1, time.Second)
			return setup{
				func(t *testing.T) redis.UniversalClient { return locktest.ClusterClient(t, c) },
				func() *redistest.Server { return c.Owner(key) }, func() { c.FailOver(key) },
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := redistest.Name(t)
			s := start(t, key)
			rt := func() *holdfast.Runtime { return locktest.NewRuntime(t, s.client(t), holdfast.Options{}) }
			p := newParliament(t, key, holdfast.ElectionOptions{}, rt(), rt())
			p.campaign()
			m := p.elected(p.candidates...)
			require.NoError(t, s.master().Client(t).Do(t.Context(), "set", "{"+key+"}.written", 1).Err())
			n, err := s.master().Client(t).Wait(t.Context(), 1, locktest.Patience).Result()
			require.NoError(t, err)
			require.Equal(t, int64(1), n, "the replica has the lock")
			s.failOver()
			m.finish()
			next := p.elected(p.candidates...)
			assert.Greater(t, next.Token, m.Token)
		})
	}
}
