package linearize

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/chaos"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// nemesis inflicts one fault after the other, each for a while.
type nemesis struct {
	*run
	server  *redistest.Server
	control *redis.Client
	proxies []*faultproxy.Proxy
	dice    *rand.Rand
	restart bool // the server may be killed
}

const (
	spanMost = 140 * time.Millisecond // the longest that a fault lasts, except a blackhole
	calm     = 20 * time.Millisecond  // between two faults, at least
	longer   = 80 * time.Millisecond  // between two faults, on average
)

// rage inflicts one fault after another until ctx ends. Each fault ends before the next one begins.
func (n *nemesis) rage(ctx context.Context) {
	faults := n.faults()
	for chaos.Pause(ctx, calm+time.Duration(n.dice.Int64N(int64(2*(longer-calm))))) {
		i, begin := n.dice.IntN(len(n.proxies)), n.now()
		f := chaos.Choose(n.dice, faults)
		f.Do(ctx, chaos.Target{Dice: n.dice, Link: n.proxies[i], Server: n.server, Redis: n.control, Most: spanMost})
		n.fault(Fault{What: fmt.Sprintf("%s (runtime %d, if of a link)", f.Name, i), Begin: begin, End: n.now()})
	}
}

func (n *nemesis) faults() []chaos.Fault {
	faults := []chaos.Fault{
		chaos.Cut, chaos.LostReplies, chaos.Silence, chaos.Delay, chaos.Blackhole, chaos.KilledSubscriptions, chaos.FlushedScripts, chaos.PausedClients,
		{Name: "long blackhole", Weight: 6, Do: func(ctx context.Context, at chaos.Target) {
			at.Link.Blackhole(true)
			chaos.Pause(ctx, n.lease+time.Duration(n.dice.Int64N(int64(n.lease))))
			at.Link.Blackhole(false)
		}},
	}
	if n.restart {
		faults = append(faults, chaos.Fault{Name: "killed server", Weight: 15, Do: func(context.Context, chaos.Target) { n.server.Restart() }})
	}
	return faults
}
