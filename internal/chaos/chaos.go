// Package chaos provides faults that tests inject into real servers and the links to them, one at a time or several at once. The simulation
// (internal/sim) has its own faults, because nothing in it is real.
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

// Fault is one thing that goes wrong. Do starts it, and returns when it is over.
type Fault struct {
	Name   string
	Weight int // how often it is chosen, relative to the others
	Do     func(ctx context.Context, at Target)
}

// Target is what a fault is injected into. A fault of a link needs no Server, and a fault of a server needs no Link.
type Target struct {
	Dice   *rand.Rand
	Link   *faultproxy.Proxy
	Server *redistest.Server
	Redis  redis.UniversalClient // a client of the server, not through Link
	Most   time.Duration         // the longest time that a fault lasts; Blackhole may last twice as long
}

// lasts waits for a random time of up to Most.
func (t Target) lasts(ctx context.Context) { Pause(ctx, t.span()) }

func (t Target) span() time.Duration { return time.Duration(t.Dice.Int64N(int64(t.Most))) }

// Choose returns a random one of several faults, by their weights.
func Choose(dice *rand.Rand, faults []Fault) Fault {
	sum := 0
	for _, f := range faults {
		sum += f.Weight
	}
	n := dice.IntN(sum)
	return faults[slices.IndexFunc(faults, func(f Fault) bool { n -= f.Weight; return n < 0 })]
}

// Dice returns a random source for the use of one goroutine.
func Dice() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// Pause waits for d. It returns false if ctx ends first.
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
