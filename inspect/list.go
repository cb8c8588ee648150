package inspect

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// lister is one run of List.
type lister struct {
	*looker
	ListOptions
	seen    map[string]struct{} // names that were shown: SCAN may return a key twice, but List shows each name once
	names   []string            // to be looked at next
	free    []*object           // contended fair locks that nobody holds
	yield   func(Entry, error) bool
	stopped bool // the caller has seen enough
}

// probes are keys whose slots are far apart. If a cluster has several masters, none of them has the slots of all these keys.
var probes = strings.Split("0123456789abcdef", "")

// refusePart returns an error if the client is for a single server of a cluster that has several masters. Without this error, the list of that
// server's locks would look complete.
func (l *lister) refusePart(ctx context.Context) error {
	if _, clustered := l.client.(*redis.ClusterClient); clustered {
		return nil
	}
	err := l.send(ctx, func(p redis.Pipeliner) {
		for _, key := range probes {
			p.Type(ctx, key)
		}
	}, isKeyDenied)
	if redis.HasErrorPrefix(err, "MOVED") {
		return fmt.Errorf("the server has only a part of a cluster's keys, use a client for the cluster: %w", err)
	}
	return err
}

func (l *lister) scan(ctx context.Context) error {
	masters, err := mastersOf(ctx, l.client)
	if err != nil {
		return err
	}
	for _, master := range masters {
		var cursor uint64
		for {
			var keys []string
			if keys, cursor, err = master.Scan(ctx, cursor, l.Pattern, int64(l.Batch)).Result(); err != nil {
				return err
			}
			for _, key := range keys {
				if err := l.add(ctx, key); err != nil || l.stopped {
					return err
				}
			}
			// Show everything found so far, so that the caller sees progress even if few of the keys are locks.
			if err := l.flush(ctx); err != nil || l.stopped {
				return err
			}
			if cursor == 0 {
				break
			}
		}
	}
	return nil
}

func (l *lister) contended(ctx context.Context) error {
	channels, err := channelsOf(ctx, l.client)
	if err != nil {
		return err
	}
	added := map[string]struct{}{} // names found so far: each waiter of a fair lock has its own channel, so several channels may lead to one name
	for _, channel := range channels {
		for _, name := range scripts.RawNames(channel) {
			if _, again := added[name]; again || !matches(l.Pattern, name) {
				continue
			}
			added[name] = struct{}{}
			if err := l.add(ctx, name); err != nil || l.stopped {
				return err
			}
		}
	}
	if err := l.flush(ctx); err != nil || l.stopped {
		return err
	}
	for _, o := range l.free {
		if _, twin := l.seen[twinOf(o.Name)]; !twin && !l.show(o) {
			return nil
		}
	}
	return nil
}

// twinOf returns the name that has the same channels and the same queue as this one: "{x}" for "x", and "x" for "{x}".
func twinOf(name string) string {
	if inner, ok := strings.CutPrefix(name, "{"); ok {
		return strings.TrimSuffix(inner, "}")
	}
	return "{" + name + "}"
}

// add adds a name to the batch if it may be the name of a lock. When the batch is full, add calls flush.
func (l *lister) add(ctx context.Context, name string) error {
	if name == "" || len(name) > protocol.MaxName || scripts.IsSideKey(name) {
		return nil
	}
	if l.names = append(l.names, name); len(l.names) < l.Batch {
		return nil
	}
	return l.flush(ctx)
}

// flush looks at the names that were added, and yields the locks among them.
func (l *lister) flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil || len(l.names) == 0 {
		return err
	}
	objects, err := l.look(ctx, l.names)
	l.names = l.names[:0]
	if err != nil {
		return err
	}
	for _, o := range objects {
		_, again := l.seen[o.Name]
		switch {
		case o.Kind == "" || again || l.Contended && o.Waiting == 0:
		case l.Contended && o.Kind == protocol.KindFair && len(o.Holders) == 0:
			l.free = append(l.free, o) // the queue may belong to the twin of o, so the method contended shows o last, unless it has shown the twin
		case !l.show(o):
			return nil
		}
	}
	return nil
}

// show yields an entry. It returns false if the caller has seen enough.
func (l *lister) show(o *object) bool {
	l.seen[o.Name] = struct{}{}
	l.stopped = !l.yield(o.Entry, nil)
	return !l.stopped
}

// mastersOf returns a client for each server that has keys.
func mastersOf(ctx context.Context, client redis.UniversalClient) ([]redis.UniversalClient, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return []redis.UniversalClient{client}, nil
	}
	var mu sync.Mutex
	var masters []redis.UniversalClient
	err := cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, master)
		return nil
	})
	return masters, err
}
