package redissonpeer

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"sync"
	"time"
)

//go:embed renew.lua
var renewScript string

// watchdog renews the locks that were taken without a lease, every third of its lease, many by one call.
type watchdog struct {
	peer  *Peer
	lease time.Duration
	batch int

	mu      sync.Mutex
	running bool
	entries map[string]*entry // by lock name
	loop    sync.WaitGroup
}

// entry is a lock that is to be renewed: who of this peer holds it, and how often. Only the first one is
// renewed.
type entry struct {
	threads []int64
	holds   map[int64]int
}

// due is a renewal that is to be sent.
type due struct {
	name   string
	thread int64
}

func newWatchdog(p *Peer, config Config) *watchdog {
	return &watchdog{
		peer: p, lease: config.Watchdog, batch: config.Batch, entries: map[string]*entry{},
	}
}

// add counts a hold. The first one starts the loop, which then runs until the peer is closed.
func (w *watchdog) add(name string, thread int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[name]
	if e == nil {
		e = &entry{holds: map[int64]int{}}
		w.entries[name] = e
	}
	if e.holds[thread] == 0 {
		e.threads = append(e.threads, thread)
	}
	e.holds[thread]++
	if !w.running {
		w.running = true
		w.loop.Go(w.run)
	}
}

// cancel takes one hold back.
func (w *watchdog) cancel(name string, thread int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[name]
	if e == nil || e.holds[thread] == 0 {
		return
	}
	if e.holds[thread]--; e.holds[thread] > 0 {
		return
	}
	delete(e.holds, thread)
	e.threads = slices.DeleteFunc(e.threads, func(t int64) bool { return t == thread })
	if len(e.threads) == 0 {
		delete(w.entries, name)
	}
}

// forget takes all holds of a lock back.
func (w *watchdog) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, name)
}

// wait returns when the loop has ended, after the peer was closed.
func (w *watchdog) wait() {
	w.mu.Lock()
	w.running = true // so that no add starts it any more
	w.mu.Unlock()
	w.loop.Wait()
}

func (w *watchdog) run() {
	ticks := time.NewTicker(max(w.lease/3, time.Millisecond))
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			w.renewAll()
		case <-w.peer.closed:
			return
		}
	}
}

// renewAll sends all renewals, one batch after the other. A batch that fails ends the run: the rest has its
// turn at the next tick.
func (w *watchdog) renewAll() {
	for batch := range slices.Chunk(w.collect(), w.batch) {
		if err := w.renew(batch); err != nil {
			return
		}
	}
}

func (w *watchdog) collect() []due {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]due, 0, len(w.entries))
	for name, e := range w.entries {
		all = append(all, due{name, e.threads[0]})
	}
	return all
}

// renew sends one batch. A lock that is not held any more is dropped, without telling anybody.
func (w *watchdog) renew(batch []due) error {
	keys := make([]string, 0, len(batch))
	args := []any{milliseconds(w.lease)}
	for _, d := range batch {
		keys = append(keys, d.name)
		args = append(args, w.peer.owner(d.thread))
	}
	result, err := w.peer.eval(context.Background(), renewScript, keys, args...)
	if err != nil {
		return err
	}
	renewed, ok := result.([]any)
	if !ok || len(renewed) != len(batch) {
		return fmt.Errorf("redissonpeer: %d renewals returned %v", len(batch), result)
	}
	for i, d := range batch {
		if renewed[i] == int64(0) {
			w.cancel(d.name, d.thread)
		}
	}
	return nil
}
