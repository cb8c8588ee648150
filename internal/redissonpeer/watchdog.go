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

// watchdog renews the locks that were taken without a lease. It renews them whenever a third of the watchdog's lease has passed. One call
// renews many locks.
type watchdog struct {
	peer  *Peer
	lease time.Duration
	batch int
	renew func(ctx context.Context, lease time.Duration, batch []due) (any, error) // one call; returns a 0 for each lock that is not held

	mu      sync.Mutex
	running bool
	entries map[string]*entry // by lock name
	loop    sync.WaitGroup
}

// entry is a lock to be renewed: the threads of this peer that hold it, their hash fields, and their numbers of holds.
type entry struct {
	threads []int64
	fields  []string
	holds   map[int64]int
}

// due is a renewal to be sent.
type due struct {
	name   string
	thread int64    // the first thread that holds the lock
	fields []string // of all threads that hold it
}

func newWatchdog(p *Peer, config Config, renew func(ctx context.Context, lease time.Duration, batch []due) (any, error)) *watchdog {
	return &watchdog{
		peer: p, lease: config.Watchdog, batch: config.Batch, renew: renew, entries: map[string]*entry{},
	}
}

// add counts a hold. The first hold starts the loop, which runs until the peer is closed.
func (w *watchdog) add(name string, thread int64, field string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[name]
	if e == nil {
		e = &entry{holds: map[int64]int{}}
		w.entries[name] = e
	}
	if e.holds[thread] == 0 {
		e.threads, e.fields = append(e.threads, thread), append(e.fields, field)
	}
	e.holds[thread]++
	if !w.running {
		w.running = true
		w.loop.Go(w.run)
	}
}

// cancel subtracts one hold.
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
	i := slices.Index(e.threads, thread)
	e.threads, e.fields = slices.Delete(e.threads, i, i+1), slices.Delete(e.fields, i, i+1)
	if len(e.threads) == 0 {
		delete(w.entries, name)
	}
}

// forget removes all holds of a lock.
func (w *watchdog) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, name)
}

// wait waits until the loop has ended. The peer must be closed.
func (w *watchdog) wait() {
	w.mu.Lock()
	w.running = true // so that no later add starts the loop
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

// renewAll sends all renewals, one batch after the other. If a batch fails, the rest is left to the next tick.
func (w *watchdog) renewAll() {
	for batch := range slices.Chunk(w.collect(), w.batch) {
		if err := w.renewBatch(batch); err != nil {
			return
		}
	}
}

func (w *watchdog) collect() []due {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]due, 0, len(w.entries))
	for name, e := range w.entries {
		all = append(all, due{name, e.threads[0], slices.Clone(e.fields)})
	}
	return all
}

// renewFirst renews each lock for its first holder only.
func (p *Peer) renewFirst(ctx context.Context, lease time.Duration, batch []due) (any, error) {
	keys := make([]string, 0, len(batch))
	args := []any{milliseconds(lease)}
	for _, d := range batch {
		keys = append(keys, d.name)
		args = append(args, d.fields[0])
	}
	return p.eval(ctx, renewScript, keys, args...)
}

// renewBatch sends one batch. A lock that is no longer held is dropped without a notification.
func (w *watchdog) renewBatch(batch []due) error {
	result, err := w.renew(context.Background(), w.lease, batch)
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
