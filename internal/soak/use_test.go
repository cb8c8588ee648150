package soak_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/chaos"
)

// use acts as one user of a process, who acquires random things.
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

// patience returns how long a user waits. Some waits are so short that they may end at any step of an acquire.
func patience() time.Duration {
	if rand.IntN(4) == 0 {
		return rand.N(20 * time.Millisecond)
	}
	return 4 * lease
}

// holding returns how long a user holds a thing: mostly for a moment, sometimes longer than a fault.
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

// isMistake reports whether an error shows a mistake: a correct call must never return this error, whatever faults there are.
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
