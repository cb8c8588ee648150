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

// Processes returns the processes that have announced themselves with holdfast.Options.Process, sorted by name. A process that has died stays in the
// list for at most half a minute, or for its holdfast.Options.Lease if that is longer.
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
	if err := check(l.client); err != nil {
		return err
	}
	all, err := l.client.ZRange(ctx, scripts.ProcessesKey, 0, -1).Result()
	if err = tolerable(err); err != nil {
		return err
	}
	return l.readProcesses(ctx, slices.DeleteFunc(all, func(text string) bool { return !scripts.IsRuntime(text) }))
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

// readProcesses reads the announcements of runtimes. On a cluster all announcements are on one server. If that server does not answer,
// readProcesses returns no error, because the locks on the other servers must still be shown.
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
