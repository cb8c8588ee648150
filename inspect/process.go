package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/scripts"
)

// Processes returns the processes that have announced themselves with holdfast.Options.Process, sorted by name. A process that has died
// is among them for as long as its locks may be, at least half a minute. All keys of the server are scanned for them.
func Processes(ctx context.Context, client redis.UniversalClient) ([]Process, error) {
	l := newLooker(client)
	if err := l.allProcesses(ctx); err != nil {
		return nil, fmt.Errorf("holdfast: processes: %w", err)
	}
	var found []Process
	for _, p := range l.processes {
		if p.Runtime != "" {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b Process) int {
		return strings.Compare(a.Name+"\x00"+a.Runtime, b.Name+"\x00"+b.Runtime)
	})
	return found, nil
}

func (l *looker) allProcesses(ctx context.Context) error {
	masters, err := mastersOf(ctx, l.client)
	if err != nil {
		return err
	}
	for _, master := range masters {
		for cursor, first := uint64(0), true; first || cursor != 0; first = false {
			var keys []string
			if keys, cursor, err = master.Scan(ctx, cursor, scripts.AllProcesses, maxBatch).Result(); err != nil {
				return err
			}
			var runtimes []string
			for _, key := range keys {
				if runtime, ok := scripts.RuntimeOf(key); ok {
					runtimes = append(runtimes, runtime)
				}
			}
			if err := l.readProcesses(ctx, runtimes); err != nil {
				return err
			}
		}
	}
	return nil
}

// nameProcesses fills in the processes of the holders.
func (l *looker) nameProcesses(ctx context.Context, objects []*object) error {
	unknown := map[string]bool{}
	each := func(f func(h *Holder, runtime string)) {
		for _, o := range objects {
			for i := range o.Holders {
				if runtime, _, ok := scripts.IsOwner(o.Holders[i].ID); ok {
					f(&o.Holders[i], runtime)
				}
			}
		}
	}
	var runtimes []string
	each(func(_ *Holder, runtime string) {
		if _, known := l.processes[runtime]; !known && !unknown[runtime] {
			unknown[runtime] = true
			runtimes = append(runtimes, runtime)
		}
	})
	if err := l.readProcesses(ctx, runtimes); err != nil {
		return err
	}
	each(func(h *Holder, runtime string) { h.Process = l.processes[runtime] })
	return nil
}

// readProcesses reads the announcements of runtimes. On a cluster they are on any server, and one that is down must not hide the locks
// of the others.
func (l *looker) readProcesses(ctx context.Context, runtimes []string) error {
	for some := range slices.Chunk(runtimes, page) {
		values := make([]*redis.StringCmd, len(some))
		err := l.send(ctx, func(p redis.Pipeliner) {
			for i, runtime := range some {
				values[i] = p.GetRange(ctx, scripts.ProcessKey(runtime), 0, int64(scripts.MaxAnnouncement))
			}
		}, isSilence)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		for i, runtime := range some {
			l.processes[runtime] = Process{}
			if a, ok := scripts.ReadAnnouncement(values[i].Val()); ok {
				since := epoch.Add(time.Duration(a.Since) * time.Millisecond).Local()
				l.processes[runtime] = Process{Runtime: runtime, Name: a.Name, Version: a.Version, Since: since}
			}
		}
	}
	return nil
}
