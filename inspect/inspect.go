package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
)

// Entry is what Redis knows about one name.
type Entry struct {
	Kind    protocol.Kind // the same type as holdfast.Kind; "" if nothing is known
	Name    string
	Key     string        // the key of Redis
	Mode    string        // of a held lock: "exclusive", "read" or "write"; otherwise ""
	Holders []Holder      // at most 10 000; sorted by ID
	Queue   []string      // owner fields of a fair lock's waiters, the next one first; at most 10 000
	TTL     time.Duration // time until Redis frees the lock, unless its lease is renewed; negative if the key does not expire
	// Waiting is the number of waiters that Redis knows of. For a fair lock it is the length of Queue. For other kinds it is the number of processes
	// that listen for a release. If 64 or more processes wait, the last of them listen on other channels; Waiting includes them. A process keeps
	// listening for a moment after it has stopped waiting. Waiters of spin locks do not listen.
	Waiting   int
	Token     int64 // of a fenced lock: at least as large as any token issued so far
	Permits   int   // of a permit semaphore: all permits, acquired and available
	Available int   // of both kinds of semaphore: permits that can be acquired now; may be negative
	Count     int   // of a latch or a semaphore (their keys look alike): the number that the key holds
}

// Holder is one holder of a lock, or one acquired permit.
type Holder struct {
	ID      string        // owner field, or the ID of the permit: the same as Lease.ID
	Holds   int           // holds that Redis counts for this holder; always 1 for users of Holdfast, which counts re-entries in the process
	TTL     time.Duration // time until its lease expires; negative if it never does
	Process Process       // zero if the process has not announced itself; always zero for permits, which do not name a process
}

// Process is a process that has announced itself: see holdfast.Options.Process.
type Process struct {
	Runtime string // Runtime.ID
	Name    string // Options.Process
	Version string // of Holdfast; "(devel)" if it is not known
	Since   time.Time
}

// ListOptions selects what List returns. The zero value selects everything.
type ListOptions struct {
	Pattern   string // of the key, as in the command KEYS; default "*"
	Contended bool   // only names with Waiting above 0; the cost then depends on how many such names there are, not on how many keys
	Batch     int    // keys per SCAN and per pipeline; default 200, at most 1000
}

// Look returns what Redis knows about a name of 1 to 512 bytes. For a name that is not in use it returns an Entry that has only a Name. If the key
// holds something other than a lock, the error matches holdfast.ErrForeignKey; for a bad name it matches holdfast.ErrInvalid.
func Look(ctx context.Context, client redis.UniversalClient, name string) (Entry, error) {
	o, err := newLooker(client).lookAt(ctx, name)
	if err != nil {
		return Entry{Name: name}, fmt.Errorf("holdfast: look at %q: %w", name, err)
	}
	return o.Entry, nil
}

func (l *looker) lookAt(ctx context.Context, name string) (*object, error) {
	if err := check(l.client); err != nil {
		return nil, err
	}
	if name == "" || len(name) > protocol.MaxName {
		return nil, fmt.Errorf("%w name: it has %d bytes, must have 1 to %d", protocol.ErrInvalid, len(name), protocol.MaxName)
	}
	objects, err := l.look(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	o := objects[0]
	if errors.Is(o.foreign, errNoCount) {
		return o, l.describeString(ctx, name)
	}
	return o, o.foreign
}

var errNoCount = foreign("a string that is no count")

// describeString returns the error for a string that is not a count. If the string expires, it may be a lock of another library, and the error says
// so.
func (l *looker) describeString(ctx context.Context, name string) error {
	ttl, err := l.client.PTTL(ctx, name).Result()
	if err != nil || ttl <= 0 {
		return errNoCount
	}
	return foreign(fmt.Sprintf("a string that expires in %v, as a lock of redsync or redislock does", ttl.Round(100*time.Millisecond)))
}

// List returns the names that are in use, each once, in no particular order. It skips keys that hold no lock, that are longer than 512 bytes, or that
// the user may not read. While List reads, locks may be acquired, be released, or move to another server of a cluster; such locks may be missing. If
// the client is for only one of several masters of a cluster, the list has only the locks of that master, and ends with an error.
//
// An error ends the list; the Entry that comes with it is empty.
func List(ctx context.Context, client redis.UniversalClient, o ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := check(client); err != nil {
			yield(Entry{}, fmt.Errorf("holdfast: list: %w", err))
			return
		}
		if o.Batch < 0 || o.Batch > maxBatch {
			yield(Entry{}, fmt.Errorf("holdfast: list: %w Batch: it is %d, must be between 1 and %d", protocol.ErrInvalid, o.Batch, maxBatch))
			return
		}
		if o.Batch == 0 {
			o.Batch = 200
		}
		if o.Pattern == "" {
			o.Pattern = "*"
		}
		l := lister{looker: newLooker(client), ListOptions: o, seen: map[string]struct{}{}, yield: yield}
		find := l.scan
		if o.Contended {
			find = l.contended
		}
		err := find(ctx)
		if err == nil && !l.stopped {
			err = l.refusePart(ctx)
		}
		if err != nil && !l.stopped {
			yield(Entry{}, fmt.Errorf("holdfast: list: %w", err))
		}
	}
}

const maxBatch = 1000
