package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// look is the state of a lock in Redis at some instant between the times `before` and `after`.
type look struct {
	before, after time.Time
	holders       []string
	queue         []string // of a fair lock
}

// observe looks at all locks at once, again and again, over its own connection.
func (w *world) observe(ctx context.Context) {
	client := w.server.Client(w.t)
	looks := time.NewTicker(2 * time.Millisecond)
	defer looks.Stop()
	for ; ctx.Err() == nil; <-looks.C {
		holders, queues := make([]*redis.StringSliceCmd, len(w.locks)), make([]*redis.StringSliceCmd, len(w.locks))
		before := time.Now()
		_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, l := range w.locks {
				holders[i], queues[i] = pipe.HKeys(ctx, l.Name), pipe.LRange(ctx, "redisson_lock_queue:{"+l.Name+"}", 0, -1)
			}
			return nil
		})
		if err != nil {
			continue // the server does not answer
		}
		after := time.Now()
		for i, l := range w.locks {
			l.looks = append(l.looks, look{before, after, holders[i].Val(), queues[i].Val()})
		}
	}
}

// untold returns leases that were still valid when Redis no longer had them (A4). If the server may forget grants, a renewed lease may stay valid
// until a renewal finds the loss. With such a server, fixed leases are not checked, because their holders learn of a loss only when the lease ends.
// While the server is down, no renewal can find a loss, so this time does not count.
func (l *worldLock) untold(w *world) (wrong []string) {
	grace := time.Duration(0)
	if w.trouble.forgets {
		grace = worldLease/3 + 200*time.Millisecond + 5*w.worst
	}
	for _, one := range l.tenures {
		if w.trouble.forgets && one.fixed {
			continue
		}
		first := sort.Search(len(l.looks), func(i int) bool { return l.looks[i].before.After(one.got) })
		for _, seen := range l.looks[first:] {
			if !seen.after.Add(grace).Before(one.valid) {
				break
			}
			late := one.valid.Sub(seen.after) - grace
			for _, o := range w.outages {
				late -= o.within(seen.after, one.valid)
			}
			if !slices.Contains(seen.holders, one.id) && late > 0 {
				wrong = append(wrong, fmt.Sprintf("%s was valid %v after Redis had %v", one.id, one.valid.Sub(seen.after), seen.holders))
				break
			}
		}
	}
	return wrong
}

// overtaken returns waiters of a fair lock that were still queued when the lock was granted to someone behind them (A8). It leaves out a waiter whose
// runtime has given no sign of life for too long: such a waiter is removed from the queue, is notified, and queues again behind the others.
func (l *worldLock) overtaken(w *world) (wrong []string) {
	thrownOut := map[string]bool{}
	for _, event := range locktest.Recorded[holdfast.QueueLost](&w.events) {
		thrownOut[event.ID] = true
	}
	before := map[[2]string]bool{} // for two waiters: whether the first was ahead of the second when they were last seen queued
	for i := 1; i < len(l.looks); i++ {
		last, now := l.looks[i-1], l.looks[i]
		for a, one := range last.queue {
			for _, behind := range last.queue[a+1:] {
				before[[2]string{one, behind}], before[[2]string{behind, one}] = true, false
			}
		}
		for _, waiting := range now.queue {
			for _, holder := range now.holders {
				if before[[2]string{waiting, holder}] && !slices.Contains(last.holders, holder) && !thrownOut[waiting] {
					wrong = append(wrong, fmt.Sprintf("%s was granted the lock before %s", holder, waiting))
				}
			}
		}
	}
	return wrong
}
