package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

const (
	page      = 256    // elements that one command reads
	maxListed = 10_000 // for one name, at most this many holders and this many waiters of the queue are listed
	maxLeases = 16     // for one reader, at most this many leases are read; each hold of a reader has its own lease
)

// looker reads locks by their names, in batches. It sends several pipelines for a batch, one after the other, because the replies to one pipeline
// decide what the next pipeline asks for.
type looker struct {
	client    redis.UniversalClient
	shards    bool               // the servers know sharded messages
	processes map[string]Process // by the runtime's ID; the zero Process if the runtime has not announced one
}

func newLooker(client redis.UniversalClient) *looker {
	return &looker{client: client, processes: map[string]Process{}}
}

// object is what has been read about one name so far. At the end its Entry is complete.
type object struct {
	Entry
	plain, sharded int64 // connections that subscribe to its channels, by SUBSCRIBE and by SSUBSCRIBE
	foreign        error // nil, or the reason why no lock can be shown: the key holds something else, or the user may not read it

	holdsType *redis.StatusCmd
	sample    *redis.StringSliceCmd // the name of any field, if the key is a hash
	fields    *redis.ScanCmd        // the first page of fields, if the key is a hash
	number    *redis.StringCmd      // the value, if the key is a string
	ttl       *redis.DurationCmd
	queue     *redis.StringSliceCmd
	token     *redis.StringCmd
	permits   *redis.ZSliceCmd // the first page of acquired permits, if the value is a number
}

// look reads what Redis knows about the names. No name may occur twice.
func (l *looker) look(ctx context.Context, names []string) ([]*object, error) {
	objects := make([]*object, len(names))
	for i, name := range names {
		objects[i] = &object{Entry: Entry{Name: name}}
	}
	for _, step := range []func(context.Context, []*object) error{l.readTypes, l.read, l.readPermits} {
		if err := step(ctx, objects); err != nil {
			return nil, err
		}
	}
	now, err := l.times(ctx, objects)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if err := l.decode(ctx, o, now[o]); err != nil {
			return nil, err
		}
	}
	known := slices.DeleteFunc(slices.Clone(objects), func(o *object) bool { return o.Kind == "" })
	for _, step := range []func(context.Context, []*object) error{l.readLeases, l.countWaiting, l.nameProcesses} {
		if err := step(ctx, known); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// readTypes reads the types of the keys. If a key is a hash, readTypes also reads the name of one field. It does not read the whole hash, which may
// be large if it is not a lock.
func (l *looker) readTypes(ctx context.Context, objects []*object) error {
	err := l.send(ctx, func(p redis.Pipeliner) {
		for _, o := range objects {
			o.holdsType = p.Type(ctx, o.Name)
		}
	}, isKeyDenied)
	if err != nil {
		return err
	}
	return l.send(ctx, func(p redis.Pipeliner) {
		for _, o := range objects {
			switch o.foreign = o.holdsType.Err(); {
			case o.foreign != nil:
			case o.holdsType.Val() == "hash":
				o.sample = p.HRandField(ctx, o.Name, 1)
			case o.holdsType.Val() != "string" && o.holdsType.Val() != "none":
				o.foreign = foreign("a " + o.holdsType.Val())
			}
		}
	})
}

// read reads the keys that may be locks.
func (l *looker) read(ctx context.Context, objects []*object) error {
	return l.send(ctx, func(p redis.Pipeliner) {
		for _, o := range objects {
			switch {
			case o.foreign != nil:
			case o.sample != nil && isField(o.sample.Val()):
				o.fields = p.HScan(ctx, o.Name, 0, "", page)
				o.ttl = p.PTTL(ctx, o.Name)
				o.token = p.GetRange(ctx, scripts.TokenKey(o.Name), 0, 31)
				o.queue = p.LRange(ctx, scripts.QueueKey(o.Name), 0, page-1)
			case o.sample != nil:
				o.foreign = foreign("a hash that is no lock")
			case o.holdsType.Val() == "string":
				o.number = p.GetRange(ctx, o.Name, 0, scripts.MaxCount)
			default:
				o.queue = p.LRange(ctx, scripts.QueueKey(o.Name), 0, page-1)
			}
		}
	})
}

// readPermits reads the acquired permits for each key that holds a number, because such a key may be a permit semaphore.
func (l *looker) readPermits(ctx context.Context, objects []*object) error {
	return l.send(ctx, func(p redis.Pipeliner) {
		for _, o := range objects {
			if o.number == nil {
				continue
			}
			if _, ok := scripts.ReadCount(o.number.Val()); ok {
				o.permits = p.ZRangeWithScores(ctx, scripts.PermitsKey(o.Name), 0, page-1)
			} else {
				o.foreign = errNoCount
			}
		}
	})
}

// isField reports whether the sampled field of a hash may be that of a lock. If the sample is empty, the hash has just disappeared.
// isField then returns true, so that the key counts as free and not as foreign.
func isField(sample []string) bool {
	if len(sample) == 0 || sample[0] == "mode" {
		return true
	}
	_, _, ok := scripts.IsOwner(sample[0])
	return ok
}

// times returns, for each object with acquired permits, the time of its server.
func (l *looker) times(ctx context.Context, objects []*object) (map[*object]time.Duration, error) {
	times, read := map[*object]time.Duration{}, map[redis.UniversalClient]time.Duration{}
	for _, o := range objects {
		if o.permits == nil || len(o.permits.Val()) == 0 {
			continue
		}
		master, err := masterOf(ctx, l.client, o.Name)
		if err != nil {
			return nil, err
		}
		if _, known := read[master]; !known {
			if read[master], err = timeOf(ctx, master); err != nil {
				return nil, err
			}
		}
		times[o] = read[master]
	}
	return times, nil
}

// timeOf returns the time of a server, as the duration since 1970.
func timeOf(ctx context.Context, server redis.UniversalClient) (time.Duration, error) {
	now, err := server.Time(ctx).Result()
	return now.Sub(epoch), err
}

var epoch = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)

// decode determines the kind of an object. If the object has more elements than the first page, decode reads further pages.
func (l *looker) decode(ctx context.Context, o *object, now time.Duration) (err error) {
	switch {
	case o.foreign != nil:
	case o.number != nil:
		err = l.decodeNumber(ctx, o, now)
	case o.fields != nil:
		err = l.decodeFields(ctx, o)
	}
	if err != nil || o.foreign != nil || o.queue == nil {
		return err
	}
	return l.decodeQueue(ctx, o)
}

func (l *looker) decodeFields(ctx context.Context, o *object) error {
	fields, cursor := o.fields.Val()
	for cursor != 0 && len(fields) < 2*maxListed {
		var more []string
		var err error
		if more, cursor, err = l.client.HScan(ctx, o.Name, cursor, "", page).Result(); tolerable(err) != nil {
			return err
		}
		fields = append(fields, more...)
	}
	if len(fields) == 0 || o.ttl.Val() == -2 {
		return nil // the hash has just disappeared
	}
	if !o.decodeHolders(fields, cursor != 0) {
		o.Holders, o.Mode, o.foreign = nil, "", foreign("a hash that is no lock")
		return nil
	}
	o.TTL = o.ttl.Val()
	for i := range o.Holders {
		o.Holders[i].TTL = o.TTL
	}
	o.Key, o.Kind = o.Name, protocol.KindLock
	switch token, ok := scripts.ReadToken(o.token.Val()); {
	case o.Mode == "write":
		o.Kind = protocol.KindWrite
	case o.Mode == "read":
		o.Kind = protocol.KindRead
	case ok:
		o.Kind, o.Token = protocol.KindFenced, token
	}
	return nil
}

// decodeHolders decodes the fields of a hash, and returns false if the hash is not a lock. If cut is true, the hash has more fields than these.
func (o *object) decodeHolders(fields []string, cut bool) bool {
	writers, seen := 0, map[string]bool{}
	for i := 0; i+1 < len(fields); i += 2 {
		field, value := fields[i], fields[i+1]
		if seen[field] { // HSCAN may return a field twice
			continue
		}
		seen[field] = true
		if field == "mode" {
			if o.Mode = value; value != "read" && value != "write" {
				return false
			}
			continue
		}
		_, writer, owner := scripts.IsOwner(field)
		holds, ok := scripts.ReadHolds(value)
		if !owner || !ok {
			return false
		}
		if writer {
			writers++
		}
		o.Holders = append(o.Holders, Holder{ID: field, Holds: holds})
	}
	slices.SortFunc(o.Holders, func(a, b Holder) int { return cmp.Compare(a.ID, b.ID) })
	o.Holders = o.Holders[:min(len(o.Holders), maxListed)]
	if o.Mode == "" && cut {
		o.Mode = "read" // so many holders mean a read lock; its field "mode" is among the fields that were not read
	}
	if o.Mode == "" {
		o.Mode = "exclusive"
		return len(o.Holders) == 1 && writers == 0
	}
	return len(o.Holders) > 0
}

// decodeQueue reads the waiters of a fair lock.
func (l *looker) decodeQueue(ctx context.Context, o *object) error {
	owners := o.queue.Val()
	for start := page; start == len(owners) && start < maxListed; start += page {
		more, err := l.client.LRange(ctx, scripts.QueueKey(o.Name), int64(start), int64(start+page-1)).Result()
		if tolerable(err) != nil {
			return err
		}
		owners = append(owners, more...)
	}
	owners = owners[:min(len(owners), maxListed)]
	for _, owner := range owners {
		if _, writer, ok := scripts.IsOwner(owner); ok && !writer {
			o.Queue = append(o.Queue, owner)
		}
	}
	if len(o.Queue) > 0 && (o.Kind == "" || o.Mode == "exclusive") {
		o.Kind, o.Key, o.Token = protocol.KindFair, o.Name, 0
	}
	return nil
}

func (l *looker) decodeNumber(ctx context.Context, o *object, now time.Duration) error {
	number, _ := scripts.ReadCount(o.number.Val())
	members := o.permits.Val()
	for start := page; start == len(members) && start < maxListed; start += page {
		more, err := l.client.ZRangeWithScores(ctx, scripts.PermitsKey(o.Name), int64(start), int64(start+page-1)).Result()
		if tolerable(err) != nil {
			return err
		}
		members = append(members, more...)
	}
	members = members[:min(len(members), maxListed)]
	o.Key, o.Kind, o.Available, o.Count = o.Name, protocol.KindSemaphore, int(number), int(number)
	if len(members) == 0 {
		return nil
	}
	o.Kind, o.Count = protocol.KindPermitSemaphore, 0
	for _, member := range members {
		switch permit, held, ok := scripts.ReadPermit(fmt.Sprint(member.Member), member.Score, now); {
		case !ok:
			o.Entry, o.foreign = Entry{Name: o.Name}, foreign("something that is no permit")
			return nil
		case held:
			o.Holders = append(o.Holders, Holder{ID: permit.ID, Holds: 1, TTL: permit.Left})
		default: // the permit has expired: it becomes available in Redis when the next permit is acquired
			o.Available++
		}
	}
	slices.SortFunc(o.Holders, func(a, b Holder) int { return cmp.Compare(a.ID, b.ID) })
	o.Permits = o.Available + len(o.Holders)
	return nil
}

// readLeases reads the leases of readers. Each hold of a reader has its own lease.
func (l *looker) readLeases(ctx context.Context, objects []*object) error {
	type lease struct {
		holder *Holder
		ttl    *redis.DurationCmd
	}
	var readers []*Holder
	names := map[*Holder]string{}
	for _, o := range objects {
		for i := range o.Holders {
			if h := &o.Holders[i]; o.Mode != "" && o.Mode != "exclusive" && !strings.HasSuffix(h.ID, ":write") {
				readers, names[h] = append(readers, h), o.Name
			}
		}
	}
	for some := range slices.Chunk(readers, page) {
		var leases []lease
		err := l.send(ctx, func(p redis.Pipeliner) {
			for _, h := range some {
				for hold := 1; hold <= min(h.Holds, maxLeases); hold++ {
					leases = append(leases, lease{h, p.PTTL(ctx, scripts.ReadTimeoutKey(names[h], h.ID, hold))})
				}
				h.TTL = 0
			}
		})
		if err != nil {
			return err
		}
		for _, lease := range leases {
			switch ttl := lease.ttl.Val(); {
			case ttl == -1:
				lease.holder.TTL = -1
			case lease.holder.TTL >= 0:
				lease.holder.TTL = max(lease.holder.TTL, ttl)
			}
		}
	}
	return nil
}
