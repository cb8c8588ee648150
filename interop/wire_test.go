package interop

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redissonpeer"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// client is a client of Redisson or of the stand-in. It carries out single steps with the locks of one name. The arguments of its function `do` are
// the parts of a step.
type client struct {
	id      string
	name    string
	permits permitIDs
	do      func(ctx context.Context, word, kind string, thread int64, lease time.Duration) (string, error)
}

// A step is "WORD KIND THREAD [LEASE]", or several of these joined by "+". The word "queue" starts a wait in the background, the word "granted" waits
// until that wait has ended, and the word "pass" lets a moment pass.
var wireSteps = map[string]string{
	"lock": `try lock 1, try lock 2, try lock 1, held lock 1, held lock 2, release lock 2, release lock 1, release lock 1, release lock 1,
		acquire lock 1 60s, acquire lock 1, release lock 1, acquire lock 1 20s, release lock 1, force lock 2, release lock 1, force lock 2,
		acquire lock 1, queue lock 2, release lock 1 + granted lock 2, release lock 2`,
	"fair": `try fair 1, try fair 2, try fair 1, release fair 2, release fair 1, release fair 1, release fair 1,
		acquire fair 1 60s, queue fair 2, queue fair 3, queue fair 4, try fair 5, acquire fair 1, release fair 1, release fair 1 + granted fair 2,
		try fair 1, force fair 1 + granted fair 3, release fair 2, release fair 3 + granted fair 4, release fair 4`,
	"read": `try read 1, try read 2, try read 1, try write 1, try write 3, held read 1, release read 3, release read 1, release read 2,
		release read 1, release read 1, acquire read 1 60s, acquire read 1, release read 1, acquire read 2 20s, release read 1, force write 3, force read 3, release read 2,
		force read 3`,
	"write": `try write 1, try write 2, try read 2, try write 1, release write 2, release write 1, release write 1, release write 1,
		acquire write 1 60s, acquire write 1, release write 1, force read 2, force write 2, release write 1, force write 2,
		acquire write 1, try read 1, release read 1, try read 1, release write 1, try read 2, held read 1, release read 2, release read 1,
		acquire write 1, queue read 2, queue read 3, release write 1 + granted read 2 + granted read 3, release read 3, release read 2`,
	// For a counter, the third word is a number instead of a thread.
	"semaphore": `available semaphore 0, try semaphore 1, drain semaphore 0, delete semaphore 0, release semaphore 2, delete semaphore 0,
		set semaphore 5, set semaphore 6, acquire semaphore 2, try semaphore 4, try semaphore 1, add semaphore 2, add semaphore -6,
		release semaphore 1, drain semaphore 0, add semaphore 3, release semaphore 0, available semaphore 0, delete semaphore 0`,
	// After "acquire" and "give", the third word is the number of one permit. After "give-all", it has one digit for each permit: 14 means 1 and 4.
	// After any other word, it is a count.
	"permit": `available permit 0, acquired permit 0, all permit 0, add permit 2, all permit 0, delete permit 0, delete permit 0,
		set permit 4, set permit 5, acquire permit 1, acquire permit 2 60s, acquire permit 3 1ms + pass permit 0, available permit 0, acquired permit 0,
		all permit 0, give permit 3, give permit 2, give permit 2, replace permit 3, replace permit 3, replace permit 1, available permit 0,
		all permit 0, add permit -1, add permit 3, acquire permit 4 20s, give-all permit 14, give-all permit 14, all permit 0,
		acquire permit 5 1ms + pass permit 0, give-all permit 5, available permit 0, acquire permit 6, delete permit 0, give permit 6`,
	"latch": `count latch 0, await latch 0, down latch 0, set latch 2, set latch 3, down latch 0, count latch 0, down latch 0, count latch 0,
		down latch 0, set latch 1, delete latch 0, delete latch 0, set latch 0, await latch 0, down latch 0, count latch 0`,
}

// The stand-in for Redisson that other tests use (redissonpeer) behaves like the real Redisson in every step: its answers, keys, TTLs
// and messages are the same.
func TestPeer_DoesAsRedissonDoes(t *testing.T) {
	redisson(t)
	for about, steps := range wireSteps {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			p := singleServerAt(redistest.Start(t).Addr())
			m := meet(t, p, kinds[0])
			clients := []client{wireRedisson(t, m), wirePeer(t, m)}
			messages := m.look.PSubscribe(t.Context(), "*")
			t.Cleanup(func() { _ = messages.Close() })
			_, err := messages.Receive(t.Context())
			require.NoError(t, err)
			for i, step := range strings.Split(steps, ",") {
				step = strings.TrimSpace(step)
				var seen []string
				for _, c := range clients {
					var answers []string
					for part := range strings.SplitSeq(step, "+") {
						answers = append(answers, c.step(t, m.look, part))
					}
					seen = append(seen, strings.Join(slices.Concat(answers, c.keys(t, m.look), c.messages(t, m.look, messages)), "\n"))
				}
				require.Equal(t, seen[0], seen[1], "step %d: %s; the real Redisson's is expected", i, step)
			}
		})
	}
}

// step carries out one step, and returns its answer as text.
func (c client) step(t *testing.T, look redis.UniversalClient, step string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	words := strings.Fields(step)
	thread, err := strconv.ParseInt(words[2], 10, 64)
	require.NoError(t, err)
	var lease time.Duration
	if len(words) > 3 {
		lease, err = time.ParseDuration(words[3])
		require.NoError(t, err)
	}
	if words[0] == "pass" {
		asleep(t)
		return ""
	}
	waiting := c.waiting(ctx, look)
	answer, err := c.do(ctx, words[0], words[1], thread, lease)
	if words[0] == "queue" {
		locktest.Await(t, "the waiter", func() bool { return c.waiting(ctx, look) > waiting || words[1] == "read" && waiting > 0 })
		asleep(t)
	}
	if err != nil {
		assert.True(t, errors.Is(err, redissonpeer.ErrNotHeld) || strings.Contains(err.Error(), "IllegalMonitorState"), "%s: %v", step, err)
		return "error"
	}
	return answer
}

// waiting returns the number of channels of this name that have subscribers.
func (c client) waiting(ctx context.Context, look redis.UniversalClient) int {
	return len(look.PubSubChannels(ctx, "*"+c.name+"*").Val())
}

// plain replaces the parts of a text that differ between clients.
func (c client) plain(text string) string {
	for number, id := range c.permits {
		if raw, err := hex.DecodeString(id); err == nil && id != "" {
			text = strings.ReplaceAll(text, string(raw), fmt.Sprintf("PERMIT%d", number))
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, c.id, "ID"), c.name, "NAME")
}

// keys returns all keys of this name with their values and TTLs, except for the keys that keep the outcome of a release for a moment.
func (c client) keys(t *testing.T, look redis.UniversalClient) (all []string) {
	t.Helper()
	keys, err := look.Keys(t.Context(), "*"+c.name+"*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		if !strings.HasPrefix(key, "redisson_unlock_latch:{"+c.name+"}:") {
			all = append(all, c.plain(key)+" = "+c.plain(value(t, look, key))+", "+tens(look.PTTL(t.Context(), key).Val()))
		}
	}
	slices.Sort(all)
	return all
}

// tens rounds a duration to ten seconds, because steps take some time.
func tens(d time.Duration) string { return d.Round(10 * time.Second).String() }

func value(t *testing.T, look redis.UniversalClient, key string) string {
	t.Helper()
	ctx := t.Context()
	switch kind := look.Type(ctx, key).Val(); kind {
	case "hash":
		fields := look.HGetAll(ctx, key).Val()
		var all []string
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			all = append(all, field+":"+fields[field])
		}
		return strings.Join(all, " ")
	case "list":
		return strings.Join(look.LRange(ctx, key, 0, -1).Val(), " ")
	case "zset":
		var all []string
		for _, z := range look.ZRangeWithScores(ctx, key, 0, -1).Val() {
			all = append(all, fmt.Sprintf("%s in %s", z.Member, tens(time.Until(time.UnixMilli(int64(z.Score))))))
		}
		return strings.Join(all, " ")
	case "string":
		return look.Get(ctx, key).Val()
	default:
		return kind
	}
}

// messages returns the messages on the channels of this name since the last call.
func (c client) messages(t *testing.T, look redis.UniversalClient, pubsub *redis.PubSub) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), locktest.Patience)
	defer cancel()
	require.NoError(t, look.Publish(ctx, "end", "end").Err())
	for {
		message, err := pubsub.ReceiveMessage(ctx)
		require.NoError(t, err)
		if message.Channel == "end" {
			return all
		}
		if strings.Contains(message.Channel, c.name) {
			all = append(all, c.plain(message.Channel)+" <- "+message.Payload)
		}
	}
}

// wireRedisson returns a client of the real Redisson.
func wireRedisson(t *testing.T, m *meeting) client {
	t.Helper()
	s := m.theirs(t, 0).(*javaSide)
	name, pending, permits := redistest.Name(t), map[string]<-chan answer{}, permitIDs{}
	return client{s.id, name, permits, func(ctx context.Context, word, kind string, thread int64, lease time.Duration) (string, error) {
		switch kind {
		case "semaphore", "latch":
			return s.ask(ctx, kind+"-"+word, "name="+name, fmt.Sprintf("n=%d", thread))
		case "permit":
			if word == "acquire" {
				permit, err := s.ask(ctx, "permit-acquire", "name="+name, ms("lease", lease))
				permits.note(thread, permit)
				return "", err
			}
			return s.ask(ctx, "permit-"+word, "name="+name, fmt.Sprintf("n=%d", thread), "permit="+strings.Join(permits.of(thread), ","))
		}
		arguments := []string{"kind=" + kind, "name=" + name, fmt.Sprintf("thread=%d", thread)}
		who := fmt.Sprint(kind, thread)
		switch word {
		case "acquire":
			return s.ask(ctx, "lock-acquire", append(arguments, ms("lease", lease))...)
		case "queue":
			answers := make(chan answer, 1)
			pending[who] = answers
			go func() {
				value, err := s.ask(t.Context(), "lock-acquire", arguments...)
				answers <- answer{value, err}
			}()
			return "", nil
		case "granted":
			return awaitAnswer(ctx, pending[who])
		}
		return s.ask(ctx, "lock-"+word, arguments...)
	}}
}

func awaitAnswer(ctx context.Context, answers <-chan answer) (string, error) {
	select {
	case got := <-answers:
		return got.value, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// wirePeer returns a client of the stand-in for Redisson that other tests use.
func wirePeer(t *testing.T, m *meeting) client {
	t.Helper()
	peer := redissonpeer.New(m.client(t), redissonpeer.Config{})
	t.Cleanup(peer.Close)
	name, locks, pending, permits := redistest.Name(t), map[string]redissonpeer.Lock{}, map[string]<-chan answer{}, permitIDs{}
	return client{peer.ID(), name, permits, func(ctx context.Context, word, kind string, thread int64, lease time.Duration) (string, error) {
		switch kind {
		case "semaphore":
			return peerSemaphore(ctx, peer.Semaphore(name), word, int(thread))
		case "latch":
			return peerLatch(ctx, peer.Latch(name), word, int(thread))
		case "permit":
			return peerPermit(ctx, peer.PermitSemaphore(name), permits, word, thread, lease)
		}
		who := fmt.Sprint(kind, thread)
		if locks[who] == nil {
			locks[who] = peerLock(peer, kind, name, thread)
		}
		lock := locks[who]
		switch word {
		case "acquire":
			return "", lock.Lock(ctx, lease)
		case "try":
			return boolean(lock.TryLock(ctx, lease))
		case "held":
			return boolean(lock.IsHeld(ctx))
		case "release":
			return "", lock.Unlock(ctx)
		case "force":
			return boolean(lock.ForceUnlock(ctx))
		case "queue":
			answers := make(chan answer, 1)
			pending[who] = answers
			go func() { answers <- answer{err: lock.Lock(t.Context(), lease)} }()
			return "", nil
		case "granted":
			return awaitAnswer(ctx, pending[who])
		}
		panic("no such step: " + word)
	}}
}

func peerSemaphore(ctx context.Context, s *redissonpeer.Semaphore, word string, n int) (string, error) {
	switch word {
	case "set":
		return boolean(s.TrySetPermits(ctx, n))
	case "try":
		return boolean(s.TryAcquire(ctx, n))
	case "acquire":
		return "", s.Acquire(ctx, n)
	case "release":
		return "", s.Release(ctx, n)
	case "add":
		return "", s.AddPermits(ctx, n)
	case "drain":
		return number(s.DrainPermits(ctx))
	case "available":
		return number(s.AvailablePermits(ctx))
	case "delete":
		return boolean(s.Delete(ctx))
	}
	panic("no such step: " + word)
}

func peerLatch(ctx context.Context, l *redissonpeer.Latch, word string, n int) (string, error) {
	switch word {
	case "set":
		return boolean(l.TrySetCount(ctx, n))
	case "down":
		return "", l.CountDown(ctx)
	case "count":
		return number(l.Count(ctx))
	case "await":
		return "", l.Await(ctx)
	case "delete":
		return boolean(l.Delete(ctx))
	}
	panic("no such step: " + word)
}

func peerPermit(ctx context.Context, s *redissonpeer.PermitSemaphore, permits permitIDs, word string, n int64, lease time.Duration) (string, error) {
	switch word {
	case "acquire":
		ids, err := s.Acquire(ctx, 1, lease)
		permits.note(n, strings.Join(ids, ""))
		return "", err
	case "give":
		return boolean(s.TryRelease(ctx, permits.of(n)[0]))
	case "give-all":
		return number(s.TryReleaseAll(ctx, permits.of(n)...))
	case "set":
		return boolean(s.TrySetPermits(ctx, int(n)))
	case "replace":
		return "", s.SetPermits(ctx, int(n))
	case "add":
		return "", s.AddPermits(ctx, int(n))
	case "available":
		return number(s.Available(ctx))
	case "acquired":
		return number(s.Acquired(ctx))
	case "all":
		return number(s.Permits(ctx))
	case "delete":
		return boolean(s.Delete(ctx))
	}
	panic("no such step: " + word)
}

// permitIDs are the ids of the permits that a client has acquired, by their numbers in the steps.
type permitIDs map[int64]string

func (p permitIDs) note(number int64, id string) { p[number] = id }

// of returns the ids of one or more permits. Each digit is the number of a permit: 14 means permits 1 and 4.
func (p permitIDs) of(numbers int64) (all []string) {
	for _, digit := range strconv.FormatInt(numbers, 10) {
		all = append(all, p[int64(digit-'0')])
	}
	return all
}

func number(n int64, err error) (string, error) { return strconv.FormatInt(n, 10), err }

func boolean(yes bool, err error) (string, error) { return strconv.FormatBool(yes), err }

func peerLock(peer *redissonpeer.Peer, kind, name string, thread int64) redissonpeer.Lock {
	switch kind {
	case "fair":
		return peer.RFairLock(name, thread)
	case "read":
		return peer.RReadLock(name, thread)
	case "write":
		return peer.RWriteLock(name, thread)
	}
	return peer.RLock(name, thread)
}
