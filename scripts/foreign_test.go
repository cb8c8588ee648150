package scripts_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// holder is an owner field in the form that Redisson and Holdfast write.
func holder(number int) string { return fmt.Sprintf("%s:%d", them, number) }

// hashes are contents that an application may keep in a hash. Some of them look almost like a lock.
var hashes = map[string][]any{
	"numbers":                   {"views", 10, "clicks", 3},
	"a number":                  {"views", 10},
	"texts":                     {"city", "Ulm", "id", 1},
	"read mode":                 {"mode", "read", "path", "/srv/data", "user", "bob"},
	"write mode":                {"mode", "write", "path", "/srv/data", "user", "bob"},
	"numbers in read mode":      {"mode", "read", "files", 7},
	"numbers in write mode":     {"mode", "write", "files", 7},
	"mode alone":                {"mode", "read"},
	"another mode":              {"mode", "dark", holder(1), 1},
	"two holders":               {holder(1), 1, holder(2), 1},
	"a holder and a note":       {holder(1), 1, "note", "x"},
	"a reader and a note":       {"mode", "read", holder(1), 1, "note", "x"},
	"a writer without a mode":   {holder(1) + ":write", 1},
	"no hold":                   {holder(1), 0},
	"no number of holds":        {holder(1), "x"},
	"no hold of a reader":       {"mode", "read", holder(1), 0},
	"no number of a reader's":   {"mode", "read", holder(1), "x"},
	"no hold of a writer":       {"mode", "write", holder(1) + ":write", 0},
	"a holder without a number": {them, 1},
	"no UUID":                   {"somebody:1", 1},
	"something behind":          {holder(1) + ":x", 1},
	"many holders":              manyReaders(),
	"many in another mode":      append(manyReaders(), "mode", "dark"),
	"many":                      manyFields(),
	"many in read mode":         append(manyFields(), "mode", "read"),
	"many in write mode":        append(manyFields(), "mode", "write"),
}

func manyFields() (fields []any) {
	for i := range 700 {
		fields = append(fields, fmt.Sprint("field", i), i)
	}
	return fields
}

// state returns the value of a key, and whether it has a TTL.
func (b bed) state(key string) string {
	b.Helper()
	ctx := b.Context()
	what, err := b.Type(ctx, key).Result()
	require.NoError(b, err)
	var content any
	switch what {
	case "hash":
		content = b.HGetAll(ctx, key).Val()
	case "list":
		content = b.LRange(ctx, key, 0, -1).Val()
	case "zset":
		content = b.ZRangeWithScores(ctx, key, 0, -1).Val()
	case "string":
		content = b.Get(ctx, key).Val()
	}
	return fmt.Sprintf("%s %v, it ends: %v", what, content, b.PTTL(ctx, key).Val() >= 0)
}

// everything calls all scripts of a kind, in all ways in which the kind uses them, on the lock with the name `raw`. It checks that no call
// changes the given key.
func (b bed) everything(kind *scripts.Kind, raw, key string, look func(call scripts.Call, err error)) {
	b.Helper()
	before, number := b.state(key), 100
	for _, call := range kind.Check(site, raw, func() string { number++; return us + ":" + strconv.Itoa(number) }) {
		if call.Bounded() {
			call.SetNotAfter(1 << 53)
		}
		err := b.Do(b.Context(), call.Command...).Err()
		if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
			_, err = b.send(call)
		}
		look(call, err)
	}
	require.True(b, before == b.state(key), "%s on %s changes the foreign value", kind.Name, raw)
}

// No operation of any kind changes a hash that is not a lock, sets a TTL on it, or treats it as a lock.
func TestForeign_HashesAreLeftAlone(t *testing.T) {
	on(t, func(b bed) {
		for what, fields := range hashes {
			raw := b.name + ":" + what
			require.NoError(b, b.HSet(b.Context(), raw, fields...).Err())
			for _, kind := range allKinds {
				b.everything(kind, raw, raw, func(call scripts.Call, err error) {
					if name := call.Script.Name; strings.Contains(name, "acquire") || strings.Contains(name, "force_release") {
						require.ErrorIs(b, scripts.Explain(err), protocol.ErrForeignKey, "%s: %s of %s", what, name, kind.Name)
					}
				})
			}
		}
	})
}

// sides are keys that belong to a lock besides its own key, each with a function that writes a foreign value into it.
var sides = map[string]func(ctx context.Context, c redis.Cmdable, key string) error{
	"redisson_lock_queue:{%s}": func(ctx context.Context, c redis.Cmdable, key string) error { return c.RPush(ctx, key, "a", "b").Err() },
	"redisson_lock_timeout:{%s}": func(ctx context.Context, c redis.Cmdable, key string) error {
		return c.ZAdd(ctx, key, redis.Z{Score: 5, Member: "a"}, redis.Z{Score: 7, Member: "b"}).Err()
	},
	"holdfast_waiting:{%s}": func(ctx context.Context, c redis.Cmdable, key string) error {
		return c.HSet(ctx, key, holder(1), 1).Err()
	},
	"{%s}:timeout": func(ctx context.Context, c redis.Cmdable, key string) error {
		return c.ZAdd(ctx, key, redis.Z{Score: 5, Member: "a"}, redis.Z{Score: 7, Member: "b"}).Err()
	},
	"holdfast_want:{%s}":       func(ctx context.Context, c redis.Cmdable, key string) error { return c.Set(ctx, key, "x", 0).Err() },
	"redisson_lock_token:{%s}": func(ctx context.Context, c redis.Cmdable, key string) error { return c.Set(ctx, key, "x", 0).Err() },
}

// No operation changes a foreign value in another key of a lock, such as the key of its queue or its permits. That holds whether or not the
// lock is free.
func TestForeign_KeysBesideTheLockAreLeftAlone(t *testing.T) {
	on(t, func(b bed) {
		for pattern, set := range sides {
			for i, kind := range allKinds {
				free := b.name + strings.ReplaceAll(pattern, "{%s}", "") + strconv.Itoa(i)
				taken := free + "taken"
				b.occupy(kind, taken)
				for _, raw := range []string{free, taken} {
					key, refused := fmt.Sprintf(pattern, raw), 0
					require.NoError(b, set(b.Context(), b, key))
					b.everything(kind, raw, key, func(call scripts.Call, err error) {
						if err != nil && err != redis.Nil { //nolint:errorlint // the very value
							refused++
							require.ErrorIs(b, scripts.Explain(err), protocol.ErrForeignKey, "%s: %s of %s", pattern, call.Script.Name, kind.Name)
						}
					})
					if raw == free {
						assert.Equal(b, slices.Contains(keysOf(kind, raw), key), refused > 0, "%s of %s is refused %d times", pattern, kind.Name, refused)
					}
				}
			}
		}
	})
}

// A foreign value replaces the queue of a fair lock that is held. The lock can be released, and the foreign value stays unchanged.
func TestForeign_QueueOfAHeldLock(t *testing.T) {
	on(t, func(b bed) {
		queue, timeouts := fmt.Sprintf("redisson_lock_queue:{%s}", b.name), fmt.Sprintf("redisson_lock_timeout:{%s}", b.name)
		require.True(b, b.take(scripts.FairLock, scripts.Terms{Grant: us + ":1", Lease: time.Minute}).Granted)
		for _, key := range []string{queue, timeouts} {
			require.NoError(b, sides[strings.ReplaceAll(key, b.name, "%s")](b.Context(), b, key))
		}
		before := []string{b.state(queue), b.state(timeouts)}
		assert.True(b, b.give(scripts.FairLock, scripts.Terms{Grant: us + ":1"}).Held)
		assert.Empty(b, b.fields())
		assert.Equal(b, before, []string{b.state(queue), b.state(timeouts)})
	})
}

// While a fair lock is held, one of the queue's keys gets a value of another type. A release and a force-release still free the lock, and succeed.
// An acquire is refused. Its error does not suggest that another library's lock is in the way, because such a lock would be a string at the lock's
// own key.
func TestForeign_QueueOfAnotherType(t *testing.T) {
	on(t, func(b bed) {
		for _, prefix := range []string{"redisson_lock_queue", "redisson_lock_timeout", "holdfast_waiting"} {
			key := fmt.Sprintf("%s:{%s}", prefix, b.name)
			require.True(b, b.take(scripts.FairLock, scripts.Terms{Grant: us + ":1", Lease: time.Minute}).Granted, key)
			require.NoError(b, b.Set(b.Context(), key, "text", 0).Err())
			assert.True(b, b.give(scripts.FairLock, scripts.Terms{Grant: us + ":1"}).Held, key)
			assert.Empty(b, b.fields(), key)

			require.NoError(b, b.HSet(b.Context(), b.name, us+":2", 1).Err())
			_, err := b.run(scripts.FairLock.ForceRelease(site, b.name))
			require.NoError(b, err, key)
			assert.Empty(b, b.fields(), key)

			call := scripts.FairLock.Acquire(site, b.name, scripts.Terms{Grant: us + ":3", Lease: time.Minute})
			_, err = b.run(call)
			err = call.Explain(err)
			require.ErrorIs(b, err, protocol.ErrForeignKey, key)
			assert.NotContains(b, err.Error(), "Migrating", key)
			assert.Equal(b, "text", b.Get(b.Context(), key).Val())
			require.NoError(b, b.Del(b.Context(), key).Err())
		}
	})
}

// election contains the calls of an election. It is a scripts.Kind only so that the tests below can check these calls, too.
var election = &scripts.Kind{Name: "election", Counting: &scripts.Counting{Check: checkElection}}

func checkElection(s *scripts.Site, raw string, newID func() string) []scripts.Call {
	leader := scripts.Leader{Token: 1, Grant: newID(), Runtime: us}
	terms := scripts.Terms{Grant: leader.Grant, Lease: time.Minute}
	return []scripts.Call{
		scripts.FencedLock.Acquire(s, raw, terms), scripts.AnnounceLeader(s, raw, leader, time.Second), scripts.ReadLeader(raw),
		scripts.FencedLock.Release(s, raw, terms),
	}
}

// ids returns a function that makes the same ids of requests and grants each time.
func ids() func() string {
	number := 0
	return func() string { number++; return us + ":" + strconv.Itoa(number) }
}

// keysBeside returns the keys that the scripts of a kind use besides the lock's own key.
func keysBeside(kind *scripts.Kind, raw string) (keys []string) {
	for _, call := range kind.Check(site, raw, ids()) {
		for _, k := range call.Keys() {
			key := k.(string)
			if key != raw && key != scripts.ReadTimeouts(raw) && !scripts.IsChannel(key) && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	if kind == scripts.Lock || kind == scripts.FencedLock {
		keys = append(keys, scripts.CrowdKey(scripts.LockChannel(raw)))
	}
	return keys
}

// One of a lock's other keys, such as its queue, holds a set. No key of Holdfast has this type, so the set is foreign. Each script works without that
// key, or is refused with an error that names the key. The set does not change, unless its key contains an id that only this runtime uses.
func TestForeign_KeysBesideTheLockOfAnotherType(t *testing.T) {
	on(t, func(b bed) {
		for _, kind := range append([]*scripts.Kind{election}, allKinds...) {
			b.eachKeyASet(kind)
		}
	})
}

func TestForeign_KeysOfProcessesOfAnotherType(t *testing.T) {
	t.Parallel()
	bed{redistest.Start(t).Client(t), t, us}.eachKeyASet(scripts.Announcing)
}

func (b bed) eachKeyASet(kind *scripts.Kind) {
	b.Helper()
	keys := keysBeside(kind, b.name)
	for _, key := range keys {
		require.NoError(b, b.Del(b.Context(), append(keys, b.name)...).Err())
		require.NoError(b, b.SAdd(b.Context(), key, "x").Err())
		for _, call := range kind.Check(site, b.name, ids()) {
			_, err := b.run(call)
			if err == nil {
				continue
			}
			require.ErrorIs(b, scripts.Explain(call.WithKeys(err)), protocol.ErrForeignKey, "%s of %s", call.Script.Name, kind.Name)
			assert.ErrorContains(b, call.WithKeys(err), key, "%s of %s", call.Script.Name, kind.Name)
		}
		if !strings.Contains(key, us) {
			assert.Equal(b, []string{"x"}, b.SMembers(b.Context(), key).Val(), "%s of %s", key, kind.Name)
			assert.Negative(b, b.PTTL(b.Context(), key).Val(), "%s of %s", key, kind.Name)
		}
		if kind.Release != nil {
			b.freeBesideASet(kind, key)
		}
	}
}

// freeBesideASet checks that a release and a force-release free a lock even if `key`, another key of the lock, has become a set.
func (b bed) freeBesideASet(kind *scripts.Kind, key string) {
	b.Helper()
	terms := scripts.Terms{Grant: kind.GrantID(us + ":1"), Lease: time.Minute}
	for _, free := range []scripts.Call{kind.Release(site, b.name, terms), kind.ForceRelease(site, b.name)} {
		require.NoError(b, b.Del(b.Context(), b.name, key).Err())
		require.True(b, b.take(kind, terms).Granted, "%s of %s", key, kind.Name)
		require.NoError(b, b.Del(b.Context(), key).Err())
		require.NoError(b, b.SAdd(b.Context(), key, "x").Err())
		reply, err := b.run(free)
		require.NoError(b, err, "%s of %s", free.Script.Name, kind.Name)
		assert.NotNil(b, reply, "%s of %s", free.Script.Name, kind.Name)
		assert.Empty(b, b.fields(), "%s of %s", free.Script.Name, kind.Name)
	}
}

// A foreign value replaces the number of a semaphore's permits while a permit is held. Releases and acquires are refused: the value does
// not change, and the permit stays held.
func TestForeign_NumberOfPermitsThatIsNone(t *testing.T) {
	on(t, func(b bed) {
		for _, text := range []string{"text", "1.5", "007", "12345678901234567"} {
			b.count(scripts.PermitsTrySet, us+":"+text, 2)
			require.True(b, b.take(scripts.Permit, scripts.Terms{Grant: permit(1), Lease: time.Minute}).Granted)
			require.NoError(b, b.Set(b.Context(), b.name, text, 0).Err())
			before := b.state(b.out())
			for _, call := range []scripts.Call{
				scripts.Permit.Release(site, b.name, scripts.Terms{Grant: permit(1)}),
				scripts.Permit.Acquire(site, b.name, scripts.Terms{Grant: permit(2), Lease: time.Minute}),
			} {
				_, err := b.run(call)
				require.ErrorIs(b, scripts.Explain(err), protocol.ErrForeignKey, "%s of %q", call.Script.Name, text)
				assert.Equal(b, text, b.key())
				assert.Equal(b, before, b.state(b.out()), "%s of %q", call.Script.Name, text)
			}
			require.NoError(b, b.Del(b.Context(), b.name, b.out()).Err())
		}
	})
}

// occupy makes another owner hold a lock of this kind, or sets the number of a counter.
func (b bed) occupy(kind *scripts.Kind, raw string) {
	b.Helper()
	if kind.Counting != nil {
		require.NoError(b, b.Set(b.Context(), raw, 5, 0).Err())
		return
	}
	fields := map[*scripts.Kind][]any{
		scripts.ReadLock: {"mode", "read", holder(1), 1}, scripts.WriteLock: {"mode", "write", holder(1) + ":write", 1},
	}[kind]
	if fields == nil {
		fields = []any{holder(1), 1}
	}
	require.NoError(b, b.HSet(b.Context(), raw, fields...).Err())
	require.NoError(b, b.PExpire(b.Context(), raw, time.Minute).Err())
}

// A lock of Redisson is not a foreign value. If it excludes an acquire, the acquire reports that the lock is busy. A force-release frees it.
func TestForeign_RedissonsLocksAreNone(t *testing.T) {
	on(t, func(b bed) {
		reader, writer := holder(-7), holder(9)+":write"
		for i, c := range []struct {
			kind   *scripts.Kind
			fields []any
		}{
			{scripts.Lock, []any{reader, 3}},
			{scripts.FairLock, []any{reader, 3}},
			{scripts.FencedLock, []any{reader, 3}},
			{scripts.SpinLock, []any{reader, 3}},
			{scripts.WriteLock, []any{"mode", "write", writer, 2}},
			{scripts.WriteLock, []any{"mode", "write", writer, 2, holder(9), 1}},
			{scripts.ReadLock, []any{"mode", "read", holder(1), 12, holder(2), 1}},
			{scripts.ReadLock, append(manyReaders(), "mode", "read")},
		} {
			raw := fmt.Sprint(b.name, i)
			require.NoError(b, b.HSet(b.Context(), raw, c.fields...).Err())
			if c.kind != scripts.ReadLock {
				reply, err := b.run(c.kind.Acquire(site, raw, scripts.Terms{Grant: holder(50), Lease: time.Minute, Try: true}))
				require.NoError(b, err, c.fields)
				acquired, err := scripts.ReadAcquired(reply, holder(50))
				require.NoError(b, err)
				assert.False(b, acquired.Granted)
				assert.Contains(b, c.fields, any(acquired.Holder))
			}
			reply, err := b.run(c.kind.ForceRelease(site, raw))
			require.NoError(b, err, c.fields)
			assert.NotEmpty(b, reply, "the former holders")
			assert.Zero(b, b.Exists(b.Context(), raw).Val())
		}
	})
}

func manyReaders() (fields []any) {
	for i := range 700 {
		fields = append(fields, holder(i), 1)
	}
	return fields
}
