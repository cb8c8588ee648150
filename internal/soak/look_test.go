package soak_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/locktest"
)

// look is what there is to see while everything rests.
type look struct {
	granted, failed, lost, faults int64

	rest       time.Duration // until nothing was left
	forgotten  int           // permits of a semaphore that were lost with their runtimes
	heap       uint64        // of this process, in bytes
	goroutines int
	redis      string // its memory
	wrong      []string
}

func (l look) String() string {
	return fmt.Sprintf("%d granted, %d failed, %d lost, %d faults; at rest after %v; %d kB of heap, %d goroutines, Redis %s",
		l.granted, l.failed, l.lost, l.faults, l.rest.Round(time.Millisecond), l.heap>>10, l.goroutines, l.redis)
}

// rest waits until Redis has nothing of anybody any more, and looks at what has been.
func (w *world) rest() look {
	l := look{
		granted: w.counts.granted.Swap(0), failed: w.counts.failed.Swap(0), lost: w.counts.lost.Swap(0), faults: w.counts.faults.Swap(0),
	}
	start := time.Now()
	if !w.rests() {
		w.wrong("left in Redis: %q", w.left())
	}
	l.rest = time.Since(start)
	w.mu.Lock()
	l.wrong, w.bad = w.bad, nil
	w.mu.Unlock()
	for _, g := range w.things {
		l.wrong = append(l.wrong, g.check()...)
	}
	l.forgotten = w.refill(&l)
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	l.heap, l.goroutines, l.redis = memory.HeapAlloc, runtime.NumGoroutine(), w.memory()
	return l
}

// rests waits, for long enough, until nothing is left in Redis.
func (w *world) rests() bool {
	looks := time.NewTicker(10 * time.Millisecond)
	defer looks.Stop()
	for end := time.Now().Add(locktest.Patience); time.Now().Before(end); <-looks.C {
		w.reclaim()
		if len(w.left()) == 0 {
			return true
		}
	}
	return false
}

// reclaim has the permits of runtimes that ended without their server given back, which is done by whoever wants one next.
func (w *world) reclaim() {
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	if permit, err := w.processes[0].rt.Load().PermitSemaphore("permits").TryAcquire(ctx); err == nil {
		_ = permit.Release(ctx)
	}
}

// left are the keys that are there though nobody holds or wants anything. Tokens and numbers of permits stay, and what came of the
// last calls of semaphores for as long as they may be repeated, which is less than a minute.
func (w *world) left() []string {
	return slices.DeleteFunc(locktest.Keys(w.t, w.redis), func(key string) bool {
		if strings.HasPrefix(key, "holdfast_attempt:") {
			ttl := w.redis.PTTL(context.Background(), key).Val()
			return ttl != -1 && ttl < time.Minute // -2: it has gone
		}
		return key == "permits" || key == semaphore
	})
}

// check looks at who had it when, and forgets that.
func (g *thing) check() (wrong []string) {
	if most := g.spans.Most(); most > g.limit {
		wrong = append(wrong, fmt.Sprintf("%s: %d were valid at once", g.name, most))
	}
	wrong = append(wrong, g.spans.Meets(&g.readers)...)
	wrong = append(wrong, g.tokens.disorder()...)
	g.spans.Clear()
	g.readers.Clear()
	return wrong
}

// refill gives the semaphore the permits back that were lost with their runtimes.
func (w *world) refill(l *look) (missing int) {
	i := slices.IndexFunc(w.things, func(g *thing) bool { return g.name == semaphore })
	limit, ctx := w.things[i].limit, context.Background()
	there, err := w.redis.Get(ctx, semaphore).Int()
	if missing = limit - there; err != nil || missing < 0 {
		l.wrong = append(l.wrong, fmt.Sprintf("%d of %d permits: %v", there, limit, err))
	}
	w.redis.Set(ctx, semaphore, limit, 0)
	return missing
}

func (w *world) memory() string {
	for line := range strings.Lines(w.redis.Info(context.Background(), "memory").Val()) {
		if used, ok := strings.CutPrefix(line, "used_memory_human:"); ok {
			return strings.TrimSpace(used)
		}
	}
	return "?"
}
