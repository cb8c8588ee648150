package soak_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/internal/chaos"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// look has the test's findings when everything is at rest.
type look struct {
	granted, failed, lost, faults int64

	forgetful  int           // failovers that may have forgotten the last writes
	surprises  int           // forgetful failovers that the test did not cause
	rest       time.Duration // until nothing was left
	forgotten  int           // permits of a semaphore that were lost with their runtimes
	heap       uint64        // of this process, in bytes
	goroutines int           // without those that forward the processes' connections
	redis      string        // its memory
	pace       pace
	disturbed  float64       // connections of clients that faults disturbed, per second
	served     time.Duration // from the last fault until every process had acquired everything once
	stalled    time.Duration // the longest stall of the machine since the last fault
	starved    int64         // calls that were repeated because of stalls
	wrong      []string
	excused    int // violations that were excused because there were surprises; they are not in the field wrong
}

func (l look) String() string {
	return fmt.Sprintf("%d granted, %d failed, %d lost, %d faults (%d forgetful failovers, %d of them surprises, %d things excused); %.1f connections (%.1f were disturbed) and %.0f scripts a second; served after %v, at rest after %v, longest stall %v (%d calls repeated); %d kB of heap, %d goroutines, Redis %s",
		l.granted, l.failed, l.lost, l.faults, l.forgetful, l.surprises, l.excused, l.pace.connections, l.disturbed, l.pace.scripts,
		l.served.Round(time.Millisecond), l.rest.Round(time.Millisecond), l.stalled.Round(time.Millisecond), l.starved, l.heap>>10, l.goroutines, l.redis)
}

// rest waits until nothing is left in Redis, and then checks what has happened.
func (w *world) rest() look {
	l := look{
		granted: w.counts.granted.Swap(0), failed: w.counts.failed.Swap(0), lost: w.counts.lost.Swap(0), faults: w.counts.faults.Swap(0),
		forgetful: int(w.counts.forgetful.Swap(0)), surprises: int(w.counts.surprises.Swap(0)),
	}
	start := time.Now()
	if !w.rests() {
		w.wrong("left in Redis: %q", w.left())
	}
	l.rest = time.Since(start)
	for _, g := range w.things {
		wrong, excused := g.check(l.surprises)
		l.wrong = append(l.wrong, wrong...)
		l.excused += excused
	}
	l.forgotten = w.refill(&l)
	w.serve(func(*thing) bool { return true }, false)
	w.mu.Lock()
	l.wrong, w.bad = append(l.wrong, w.bad...), nil
	w.mu.Unlock()
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	l.heap, l.goroutines, l.redis = memory.HeapAlloc, runtime.NumGoroutine()-2*w.open(), w.memory()
	return l
}

// rests waits until nothing is left in Redis. It returns false if that takes too long.
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

// reclaim acquires a permit, which makes Redis take back the permits of runtimes that ended without reaching their server.
func (w *world) reclaim() {
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	if permit, err := w.processes[0].rt.Load().PermitSemaphore("permits").TryAcquire(ctx); err == nil {
		_ = permit.Release(ctx)
	}
}

// left returns the keys that should not exist when nobody holds or wants anything. Tokens and numbers of permits may stay. The results of the last
// calls of semaphores may stay for as long as these calls may be repeated: less than a minute.
func (w *world) left() []string {
	var keys []string
	for _, master := range w.stage.masters() {
		keys = append(keys, locktest.Keys(w.t, master)...)
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		if strings.HasPrefix(key, "holdfast_attempt:") {
			ttl := w.redis.PTTL(context.Background(), key).Val()
			return ttl != -1 && ttl < time.Minute // -2: it has gone
		}
		return key == "permits" || key == semaphore
	})
}

// late returns an error text if the last process was served too late after the last fault. The bound grows with the longest stall of the machine,
// because a stall delays every process several times.
func (l look) late() []string {
	if most := 5 * (time.Second + l.stalled); l.served > most {
		return []string{fmt.Sprintf("the last process was served %v after the last fault, later than %v", l.served, most)}
	}
	return nil
}

// serve makes every process get each of the given things once more. It repeats failed calls in two cases: if the faults have only
// just ended, or if the machine has stalled for longer than an attempt waits for its answer. An attempt does not wait for long, because leases are
// short. After such a stall, a release is not confirmed, and waiters get the error that Redis does not answer.
func (w *world) serve(these func(*thing) bool, justHealed bool) {
	mayFail := func(err error) bool {
		return !isMistake(err) && (justHealed || w.stalls.Worst() >= rpc.Window(lease))
	}
	var group sync.WaitGroup
	for i, p := range w.processes {
		for _, g := range w.things {
			if !these(g) {
				continue
			}
			group.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
				defer cancel()
				err := g.use(ctx, p.rt.Load(), 0)
				for err != nil && mayFail(err) && chaos.Pause(ctx, 10*time.Millisecond) {
					if !justHealed {
						w.counts.starved.Add(1)
						w.t.Logf("repeated, because the machine stalled for %v: process %d: %s: %v", w.stalls.Worst(), i, g.name, err)
					}
					err = g.use(ctx, p.rt.Load(), 0)
				}
				if err != nil {
					w.wrong("process %d is not served although there is no fault (longest stall %v): %s: %v", i, w.stalls.Worst(), g.name, err)
				}
			})
		}
	}
	group.Wait()
}

// check returns the violations among the recorded holds. If all of them are excused, it returns only their number. Then it forgets the holds.
//
// If the test has caused a failover, this excuses no violation. A master counts as dead only after it was silent for longer than any lease lasts. So
// before the new master grants anything, the grants that it does not know have ended. But on a busy machine, a master may count as dead although it
// still grants. Such a failover is a surprise, and excuses violations.
func (g *thing) check(surprises int) (wrong []string, excused int) {
	meets, most := g.spans.Meets(&g.readers), g.spans.AtOnce()
	wrong = append(meets, g.tokens.disorder()...)
	if most > g.limit {
		wrong = append(wrong, fmt.Sprintf("%s: %d leases were valid at once", g.name, most))
	}
	g.spans.Clear()
	g.readers.Clear()
	if surprises > 0 && most <= g.limit*(1+surprises) {
		return nil, len(wrong)
	}
	return wrong, 0
}

// refill restores the semaphore's permits that were lost with their runtimes.
func (w *world) refill(l *look) (missing int) {
	i := slices.IndexFunc(w.things, func(g *thing) bool { return g.name == semaphore })
	limit, ctx := w.things[i].limit, context.Background()
	there, err := w.redis.Get(ctx, semaphore).Int()
	if missing = limit - there; err != nil || missing < 0 && l.forgetful == 0 {
		l.wrong = append(l.wrong, fmt.Sprintf("%d of %d permits: %v", there, limit, err))
	}
	w.redis.Set(ctx, semaphore, limit, 0)
	return missing
}

func (w *world) memory() string {
	for line := range strings.Lines(w.stage.masters()[0].Info(context.Background(), "memory").Val()) {
		if used, ok := strings.CutPrefix(line, "used_memory_human:"); ok {
			return strings.TrimSpace(used)
		}
	}
	return "?"
}
