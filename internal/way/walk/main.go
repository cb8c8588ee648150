// Program walk runs one operation again and again, and writes the coverage counters of each run. It is built with -cover.
//
//	walk REDIS OPERATION FOLDER
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
)

const (
	times = 20
	rest  = 20 * time.Millisecond // after this pause nothing of the previous step still runs
	name  = "way"
)

// walker is the state that the three steps of an operation share. The steps are prepare, run and undo; only run is measured.
type walker struct {
	ctx   context.Context
	lock  *holdfast.Lock
	peer  redissonpeer.Lock
	lease *holdfast.Lease
}

type operation struct{ prepare, run, undo func(w *walker) error }

func nothing(*walker) error { return nil }

var operations = map[string]operation{
	"nothing": {nothing, nothing, nothing},
	"acquire": {nothing, (*walker).acquire, (*walker).release},
	"release": {(*walker).acquire, (*walker).release, nothing},
	"woken":   {(*walker).peerAcquires, (*walker).acquireFromPeer, (*walker).release},
}

func (w *walker) acquire() (err error) {
	w.lease, err = w.lock.Acquire(w.ctx)
	return err
}

func (w *walker) release() error { return w.lease.Release(w.ctx) }

func (w *walker) peerAcquires() error {
	_, err := w.peer.TryLock(w.ctx, 0)
	return err
}

// acquireFromPeer acquires the lock while another client holds it. That client releases it once the waiter has had time to subscribe.
func (w *walker) acquireFromPeer() error {
	pending := w.lock.AcquireAsync(w.ctx)
	time.Sleep(rest)
	if err := w.peer.Unlock(w.ctx); err != nil {
		return err
	}
	<-pending.Done()
	var err error
	w.lease, err = pending.Lease()
	return err
}

func main() {
	if err := walk(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func walk(redisAddr, what, folder string) error {
	client := redis.NewClient(&redis.Options{
		Addr: redisAddr, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	rt, err := holdfast.New(client, holdfast.Options{})
	if err != nil {
		return err
	}
	peer := redissonpeer.New(client, redissonpeer.Config{})
	defer peer.Close()
	w := &walker{ctx: context.Background(), lock: rt.Lock(name), peer: peer.RLock(name, 1)}
	op, known := operations[what]
	if !known {
		return fmt.Errorf("unknown operation %q", what)
	}
	if err := w.once(op, ""); err != nil { // not measured: loads scripts, opens connections
		return err
	}
	for i := range times {
		if err := w.once(op, filepath.Join(folder, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return rt.Close(w.ctx)
}

// once runs an operation. Unless `folder` is "", it makes this folder, and writes the operation's counters to it.
func (w *walker) once(op operation, folder string) error {
	if err := op.prepare(w); err != nil {
		return err
	}
	time.Sleep(rest)
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := op.run(w); err != nil {
		return err
	}
	time.Sleep(rest) // the counters include the work that the operation still does in the background
	if folder != "" {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		if err := coverage.WriteMetaDir(folder); err != nil {
			return err
		}
		if err := coverage.WriteCountersDir(folder); err != nil {
			return err
		}
	}
	return op.undo(w)
}
