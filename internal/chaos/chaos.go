// Package chaos has the faults that tests inflict on real servers and on the links to them, one after the other or several at a time.
// The simulation has faults of its own (internal/sim), because nothing in it is real.
package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Fault is one thing that goes wrong. It is over when Do returns.
type Fault struct {
	Name   string
	Weight int // how often it is chosen, compared with the others
	Do     func(ctx context.Context, at Target)
}

// Target is what a fault befalls. A fault of a link needs no server, and the other way round.
type Target struct {
	Dice   *rand.Rand
	Link   *faultproxy.Proxy
	Server *redistest.Server
	Redis  redis.UniversalClient // the server's, not over a link
	Most   time.Duration         // how long a fault lasts
}

// lasts waits for up to Most.
func (t Target) lasts(ctx context.Context) { Pause(ctx, t.span()) }

func (t Target) span() time.Duration { return time.Duration(t.Dice.Int64N(int64(t.Most))) }

// Choose draws one of several faults.
func Choose(dice *rand.Rand, faults []Fault) Fault {
	sum := 0
	for _, f := range faults {
		sum += f.Weight
	}
	n := dice.IntN(sum)
	return faults[slices.IndexFunc(faults, func(f Fault) bool { n -= f.Weight; return n < 0 })]
}

// Dice are dice of their own, for one goroutine.
func Dice() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// Pause waits. It is false if ctx has ended.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
