package faults_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// recommendedRights returns the rules that SECURITY.md recommends.
func recommendedRights(t *testing.T) []string {
	text, err := os.ReadFile("../../SECURITY.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)ACL SETUSER app on >PASSWORD (.*?)```").FindSubmatch(text)
	require.NotNil(t, block)
	return strings.Fields(string(block[1]))
}

// For each recommended right, there is a user who lacks it. Every operation of such a user works, or returns an error that names the lock. No key
// without an expiry is left, although Redis does not roll scripts back.
func TestFault_MissingRight(t *testing.T) {
	t.Parallel()
	places := locktest.OnOneServer(t)
	for _, missing := range recommendedRights(t) {
		if !strings.HasPrefix(missing, "+") && !strings.HasPrefix(missing, "~") && !strings.HasPrefix(missing, "&") {
			continue
		}
		rt := userWithout(t, places[0], missing)
		for _, p := range places {
			p := p.Another(t)
			lease, err := p.Lock(rt).TryAcquire(t.Context())
			if err == nil {
				err = lease.Release(t.Context())
			}
			if err != nil {
				assert.ErrorContains(t, err, `"`+p.Name+`"`)
				assert.Regexp(t, "NOPERM|The user executing the script can't", err.Error(), missing)
				assert.Contains(t, err.Error(), "(Check names every missing right)", missing)
			}
		}
		for _, key := range places[0].Redis.Keys(t.Context(), "*").Val() {
			if strings.HasPrefix(key, "redisson_lock_token:") {
				continue // the counter of tokens never expires
			}
			ttl := places[0].Redis.PTTL(t.Context(), key).Val()
			assert.NotEqual(t, time.Duration(-1), ttl, "%s has no end without %s", key, missing)
		}
		require.NoError(t, places[0].Redis.FlushAll(t.Context()).Err())
	}
}

// If Redis refuses to release a lock because the user has lost a right, the error of Close says so, because the lock stays taken.
func TestFault_CloseWithoutTheRightToRelease(t *testing.T) {
	t.Parallel()
	for _, p := range locktest.OnOneServer(t) {
		user := p.Another(t).Name
		require.NoError(t, p.Redis.ACLSetUser(t.Context(), user, "on", ">right", "allkeys", "allchannels", "+@all").Err())
		client := locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Username: user, Password: "right"})
		rt, err := holdfast.New(client, holdfast.Options{Logger: locktest.Quiet()})
		require.NoError(t, err)
		locktest.Acquire(t, p.Lock(rt))
		require.NoError(t, p.Redis.ACLSetUser(t.Context(), user, "-hdel", "-del").Err())
		err = rt.Close(t.Context())
		assert.ErrorContains(t, err, `"`+p.Name+`"`, p.Kind.Name)
		assert.ErrorContains(t, err, "can't run this command", p.Kind.Name)
		assert.Equal(t, err, rt.Close(t.Context()), "a second Close says so, too")
		assert.True(t, p.Exists(t), p.Kind.Name)
	}
}

// Redis does not roll back a script that lacks a right. If the release of a read or write lock lacks one, the key still holds a lock or is gone, so
// that others do not take it for something else.
func TestFault_RefusedReleaseLeavesALock(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	other := p.Runtime(t, holdfast.Options{})
	for _, missing := range []string{"-del", "-hdel", "-publish"} {
		for half, of := range map[string]func(*holdfast.RWLock) *holdfast.Lock{"read": (*holdfast.RWLock).Read, "write": (*holdfast.RWLock).Write} {
			user, rt, allow := userOf(t, p)
			lease := locktest.Acquire(t, of(rt.RWLock(user)))
			allow(missing)
			_ = lease.Release(t.Context()) // not each release needs each right
			if lease, err := other.RWLock(user).Write().TryAcquire(t.Context()); err == nil {
				locktest.Release(t, lease)
			} else {
				assert.ErrorIs(t, err, holdfast.ErrNotAcquired, "%s of a %s lock", missing, half)
			}
		}
	}
}

// userOf makes a user who has all rights, and a runtime for this user. The function `allow` adds a rule to the user's rights.
func userOf(t *testing.T, p *locktest.Place) (user string, rt *holdfast.Runtime, allow func(rule string)) {
	user = p.Another(t).Name
	allow = func(rule string) {
		require.NoError(t, p.Redis.ACLSetUser(t.Context(), user, "on", ">right", "allkeys", "allchannels", rule).Err())
	}
	allow("+@all")
	return user, locktest.NewRuntime(t, locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Username: user, Password: "right"}), holdfast.Options{}), allow
}

// If the acquire or release of a permit lacks a right, the semaphore keeps all its permits. The permits that an acquire finds expired count, too.
func TestFault_RefusedPermitIsNotLost(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	for _, missing := range []string{"-zadd", "-decrby", "-zrem", "-incrby", "-publish"} {
		user, rt, allow := userOf(t, p)
		s := rt.PermitSemaphore(user)
		require.NoError(t, s.SetPermits(t.Context(), 3))
		released, expired := locktest.AcquirePermit(t, s), locktest.AcquirePermit(t, s)
		id, err := hex.DecodeString(expired.ID())
		require.NoError(t, err)
		require.NoError(t, p.Redis.ZAdd(t.Context(), "{"+user+"}:timeout", redis.Z{Score: 1, Member: id}).Err())
		allow(missing)
		_ = released.Release(t.Context()) // not each call needs each right
		if lease, err := s.TryAcquire(t.Context()); err == nil {
			_ = lease.Release(t.Context())
		}
		allow("+@all")
		n, err := s.Permits(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, n, missing)
	}
}

// If the user lacks a right, ReleaseID releases all the permits or none, no matter how many there are. No permit is lost.
func TestFault_RefusedReleaseOfManyPermits(t *testing.T) {
	t.Parallel()
	const many = 5000
	p := locktest.OnServerOfItsOwn(t)
	for _, missing := range []string{"-incrby", "-zrem", "-set", "-del", "-publish"} {
		user, rt, allow := userOf(t, p)
		s := rt.PermitSemaphore(user)
		var ids []string
		var held []redis.Z
		for i := range many {
			permit := fmt.Sprintf("hfp1%012d", i)
			ids = append(ids, hex.EncodeToString([]byte(permit)))
			held = append(held, redis.Z{Score: math.MaxInt32 * 1000, Member: permit})
		}
		require.NoError(t, p.Redis.ZAdd(t.Context(), "{"+user+"}:timeout", held...).Err())
		require.NoError(t, p.Redis.Set(t.Context(), user, 0, 0).Err())
		allow(missing)
		refused := s.ReleaseID(t.Context(), append(ids, ids[0])...)
		allow("+@all")
		n, err := s.Permits(t.Context())
		require.NoError(t, err)
		assert.Equal(t, many, n, missing)
		free, err := s.Available(t.Context())
		require.NoError(t, err)
		if refused != nil {
			assert.ErrorContains(t, refused, "can't run this command", missing)
			assert.Equal(t, 0, free, missing)
		} else { // not each release needs each right
			assert.Equal(t, many, free, missing)
		}
	}
}

// If the user lacks a right that an operation on a count needs, the operation is refused as a whole: the caller may repeat it. Redis must be able to
// keep the result of the operation, which needs the right to SET.
func TestFault_RefusedCountDoesNotCount(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	other := p.Runtime(t, holdfast.Options{})
	for _, missing := range []string{"-set", "-decrby", "-incrby", "-del", "-publish"} {
		user := p.Another(t).Name
		require.NoError(t, p.Redis.ACLSetUser(t.Context(), user, "on", ">right", "allkeys", "allchannels", "+@all", missing).Err())
		rt := locktest.NewRuntime(t, locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Username: user, Password: "right"}), holdfast.Options{})
		for what, do := range map[string]func(s *holdfast.Semaphore, p *holdfast.PermitSemaphore) error{
			"acquire": func(s *holdfast.Semaphore, _ *holdfast.PermitSemaphore) error { return s.TryAcquire(t.Context(), 2) },
			"release": func(s *holdfast.Semaphore, _ *holdfast.PermitSemaphore) error { return s.Release(t.Context(), 2) },
			"add":     func(s *holdfast.Semaphore, _ *holdfast.PermitSemaphore) error { return s.AddPermits(t.Context(), -1) },
			"drain": func(s *holdfast.Semaphore, _ *holdfast.PermitSemaphore) error {
				_, err := s.Drain(t.Context())
				return err
			},
			"set permits": func(_ *holdfast.Semaphore, p *holdfast.PermitSemaphore) error { return p.SetPermits(t.Context(), 7) },
			"add permits": func(_ *holdfast.Semaphore, p *holdfast.PermitSemaphore) error { return p.AddPermits(t.Context(), 4) },
		} {
			counts, permits := redistest.Name(t), redistest.Name(t)
			_, err := other.Semaphore(counts).TrySetPermits(t.Context(), 3)
			require.NoError(t, err)
			require.NoError(t, other.PermitSemaphore(permits).SetPermits(t.Context(), 3))
			for range 2 { // the second call also deletes the result of the first
				if err = do(rt.Semaphore(counts), rt.PermitSemaphore(permits)); err == nil { // not each operation needs each right
					_, err = other.Semaphore(counts).Drain(t.Context())
					require.NoError(t, err)
					require.NoError(t, other.Semaphore(counts).Release(t.Context(), 3))
					require.NoError(t, other.PermitSemaphore(permits).SetPermits(t.Context(), 3))
					continue
				}
				assert.ErrorContains(t, err, "can't run this command", "%s of %s", missing, what)
			}
			n, err := other.Semaphore(counts).Available(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 3, n, "%s of %s", missing, what)
			n, err = other.PermitSemaphore(permits).Permits(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 3, n, "%s of %s", missing, what)
		}
		latch := redistest.Name(t)
		_, err := other.CountDownLatch(latch).TrySetCount(t.Context(), 1)
		require.NoError(t, err)
		if rt.CountDownLatch(latch).CountDown(t.Context()) != nil {
			n, err := other.CountDownLatch(latch).Count(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, n, missing)
		}
	}
}

func userWithout(t *testing.T, p *locktest.Place, missing string) *holdfast.Runtime {
	rules := []string{"reset", "on", ">right"}
	for _, rule := range recommendedRights(t) {
		if rule != missing {
			rules = append(rules, rule)
		}
	}
	name := p.Another(t).Name
	require.NoError(t, p.Redis.ACLSetUser(context.Background(), name, rules...).Err())
	client := locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Username: name, Password: "right"})
	return locktest.NewRuntime(t, client, holdfast.Options{NameMapper: func(name string) string { return "app:" + name }})
}
