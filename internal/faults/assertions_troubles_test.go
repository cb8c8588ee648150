package faults_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/chaos"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// again calls the function `do` at random instants until ctx ends.
func again(ctx context.Context, within time.Duration, do func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(within)):
			do()
		}
	}
}

func wait(ctx context.Context, _ *world) { <-ctx.Done() }

// breakLinks makes the links fail independently, so that several fail at once.
func breakLinks(ctx context.Context, w *world) {
	var links sync.WaitGroup
	for _, proxy := range w.proxies {
		links.Go(func() {
			at := chaos.Target{Dice: chaos.Dice(), Link: proxy, Most: worldLease / 3}
			again(ctx, worldLease/3, func() { chaos.Choose(at.Dice, chaos.Links).Do(ctx, at) })
			proxy.Heal()
		})
	}
	links.Wait()
}

func killConnections(ctx context.Context, w *world) {
	again(ctx, worldLease/5, func() {
		w.redis.ScriptFlush(ctx)
		w.redis.Do(ctx, "client", "kill", "type", []string{"normal", "pubsub"}[rand.IntN(2)], "skipme", "yes")
	})
}

// keepBusy runs a script for a while, again and again. The script writes nothing, so it can be killed.
func keepBusy(ctx context.Context, w *world) {
	assert.NoError(w.t, w.redis.ConfigSet(ctx, "busy-reply-threshold", "10").Err())
	client := locktest.NewClient(w.t, w.server.Addr())
	again(ctx, worldLease/2, func() {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = client.Eval(context.Background(), "while true do end", nil).Err()
		}()
		<-time.After(rand.N(worldLease))
		locktest.Await(w.t, "the end of the script", func() bool {
			err := w.redis.ScriptKill(context.Background()).Err()
			return err == nil || strings.HasPrefix(err.Error(), "NOTBUSY") // the script has not begun, or has ended
		})
		select {
		case <-ended:
		case <-time.After(worldLease):
			_ = w.redis.ScriptKill(context.Background()).Err() // the attempt above may have come before the script began
			<-ended
		}
	})
}

func pauseClients(ctx context.Context, w *world) {
	again(ctx, worldLease/2, func() {
		w.redis.Do(ctx, "client", "pause", rand.Int64N(2*worldLease.Milliseconds()), []string{"all", "write"}[rand.IntN(2)])
	})
}

func awaitAnswer(w *world) {
	locktest.Await(w.t, "the end of the pause", func() bool { return w.redis.Ping(context.Background()).Err() == nil })
}

func standStill(ctx context.Context, w *world) {
	at := chaos.Target{Dice: chaos.Dice(), Server: w.server, Most: 2 * worldLease}
	again(ctx, worldLease/2, func() { chaos.StoppedServer.Do(ctx, at) })
}

// takeMemory leaves the server no memory for a moment, again and again. The server then refuses commands that need memory, or evicts keys.
func takeMemory(ctx context.Context, w *world) {
	again(ctx, worldLease/2, func() {
		w.redis.ConfigSet(context.Background(), "maxmemory", "1")
		<-time.After(rand.N(worldLease / 5))
		w.redis.ConfigSet(context.Background(), "maxmemory", "0")
	})
}

func giveMemory(w *world) {
	assert.NoError(w.t, w.redis.ConfigSet(context.Background(), "maxmemory", "0").Err())
}

// stepClock moves the server's clock by several leases, again and again.
func stepClock(direction time.Duration) func(context.Context, *world) {
	return func(ctx context.Context, w *world) {
		at := time.Duration(0)
		again(ctx, worldLease, func() {
			at += direction * (worldLease + rand.N(10*worldLease))
			w.clock.Set(at)
		})
	}
}

func crashAndRestart(ctx context.Context, w *world) {
	again(ctx, worldLease, func() { w.crash(func() { <-time.After(rand.N(worldLease / 3)) }) })
}

// crash kills the server, calls pause, and restarts the server. It records the outage, because in that time no renewal can find a loss.
func (w *world) crash(pause func()) {
	began := time.Now()
	w.server.Kill()
	pause()
	w.server.Restart()
	w.outages = append(w.outages, outage{began, time.Now()})
}

// outage is a span of time in which the server was down.
type outage struct{ from, to time.Time }

// within returns how much of the outage lies between two instants.
func (o outage) within(from, to time.Time) time.Duration {
	if o.from.After(from) {
		from = o.from
	}
	if o.to.Before(to) {
		to = o.to
	}
	return max(to.Sub(from), 0)
}

func flushData(ctx context.Context, w *world) {
	again(ctx, worldLease, func() { w.redis.FlushAll(ctx) })
}

func stepBackAndCrash(ctx context.Context, w *world) {
	at := time.Duration(0)
	again(ctx, worldLease, func() {
		at -= worldLease + rand.N(10*worldLease)
		w.crash(func() { w.clock.Set(at) })
	})
}
