package linearize

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// nemesis has one thing go wrong after the other, each for a while.
type nemesis struct {
	*run
	server  *redistest.Server
	control *redis.Client
	proxies []*faultproxy.Proxy
	dice    *rand.Rand
	restart bool // the server may be killed
}

// rage goes on until ctx ends; then all is well.
func (n *nemesis) rage(ctx context.Context) {
	for ctx.Err() == nil {
		n.wait(ctx, n.between(20*time.Millisecond, 140*time.Millisecond))
		begin := n.now()
		what := n.strike(ctx, n.between(20*time.Millisecond, 140*time.Millisecond))
		n.fault(Fault{What: what, Begin: begin, End: n.now()})
	}
}

func (n *nemesis) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.dice.Int64N(int64(most-least)))
}

func (n *nemesis) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// strike makes a fault and ends it after d, or tells of one that is over at once.
func (n *nemesis) strike(ctx context.Context, d time.Duration) string {
	i := n.dice.IntN(len(n.proxies))
	proxy := n.proxies[i]
	during := func(what string) string {
		n.wait(ctx, d)
		proxy.Heal()
		return fmt.Sprintf("%s of runtime %d", what, i)
	}
	if n.restart && n.dice.IntN(6) == 0 {
		n.server.Restart()
		return "killed server"
	}
	switch dice := n.dice.IntN(24); {
	case dice < 3:
		proxy.Cut()
		return fmt.Sprintf("cut of runtime %d", i)
	case dice < 7:
		proxy.DropReplies(1 + n.dice.IntN(3))
		return during("lost replies")
	case dice < 9:
		proxy.SwallowReplies(true)
		return during("silence")
	case dice < 12:
		proxy.Delay(faultproxy.ToServer, n.between(0, 40*time.Millisecond))
		proxy.Delay(faultproxy.ToClient, n.between(0, 40*time.Millisecond))
		return during("delay")
	case dice < 15:
		proxy.Blackhole(true)
		return during("blackhole")
	case dice < 17:
		proxy.Blackhole(true)
		d = n.between(n.lease, 2*n.lease)
		return during("long blackhole")
	case dice < 20:
		n.control.ClientKillByFilter(ctx, "TYPE", "pubsub")
		return "killed subscriptions"
	case dice < 22:
		n.control.ScriptFlush(ctx)
		return "flushed scripts"
	default:
		n.control.Do(ctx, "client", "pause", d.Milliseconds(), "all")
		n.wait(ctx, d)
		return "pause of all clients"
	}
}
