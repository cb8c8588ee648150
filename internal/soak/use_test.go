package soak_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/chaos"
)

// use is one user of a process, who wants this and that.
func (w *world) use(ctx context.Context, p *process) {
	for chaos.Pause(ctx, 10*time.Millisecond+rand.N(40*time.Millisecond)) {
		g := w.things[rand.IntN(len(w.things))]
		wanted, cancel := context.WithTimeout(ctx, patience())
		err := g.use(wanted, p.rt.Load(), holding(), asking()...)
		cancel()
		switch {
		case err == nil:
			w.counts.granted.Add(1)
		case isMistake(err):
			w.wrong("%s: %v", g.name, err)
		default:
			w.counts.failed.Add(1)
		}
	}
}

// patience ends at any instant of an acquire.
func patience() time.Duration {
	if rand.IntN(4) == 0 {
		return rand.N(20 * time.Millisecond)
	}
	return 4 * lease
}

// holding is mostly for a moment, sometimes over faults.
func holding() time.Duration {
	if rand.IntN(10) == 0 {
		return rand.N(2 * lease)
	}
	return rand.N(10 * time.Millisecond)
}

func asking() []holdfast.AcquireOption {
	if rand.IntN(4) == 0 {
		return []holdfast.AcquireOption{holdfast.WithLease(lease/2 + rand.N(lease))}
	}
	return nil
}

// isMistake is what no fault may make of a call that is made as it should be.
func isMistake(err error) bool {
	for _, never := range []error{
		holdfast.ErrInvalid, holdfast.ErrNotHeld, holdfast.ErrForeignKey, holdfast.ErrUpgrade, holdfast.ErrTooManyWaiters, holdfast.ErrNotReplicated,
	} {
		if errors.Is(err, never) {
			return true
		}
	}
	return false
}
