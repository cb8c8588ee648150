package inspect_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// documentedRights returns the rules that SECURITY.md recommends for a user who only looks at locks.
func documentedRights(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../SECURITY.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)ACL SETUSER viewer on >PASSWORD (.*?)```").FindStringSubmatch(string(text))
	require.NotNil(t, block)
	return strings.Fields(block[1])
}

// A user with exactly the rights of SECURITY.md sees every kind and cannot change anything. If any one of the commands is forbidden, the error names
// it.
func TestRights_AreThoseDocumented(t *testing.T) {
	t.Parallel()
	p := locktest.OnServerOfItsOwn(t)
	rt, other := p.Runtime(t, holdfast.Options{Process: "orders"}), p.Runtime(t, holdfast.Options{})
	locks := []*holdfast.Lock{rt.Lock("app:lock"), rt.FairLock("app:fair"), rt.FencedLock("app:fenced"), rt.RWLock("app:rw").Read()}
	for _, lock := range locks {
		locktest.Acquire(t, lock)
	}
	locktest.Acquire(t, rt.Lock("another"))
	pending := other.FairLock("app:fair").AcquireAsync(t.Context())
	defer pending.Cancel()
	awaitWaiting(t, p.Redis, "app:fair", 1)
	permits := rt.PermitSemaphore("app:permits")
	require.NoError(t, permits.SetPermits(t.Context(), 1))
	lease, err := permits.TryAcquire(t.Context())
	require.NoError(t, err)
	defer locktest.Release(t, lease)
	want := []string{"app:lock", "app:fair", "app:fenced", "app:rw", "app:permits"}

	viewer := func(t *testing.T, rules []string) *redis.Client {
		args := []any{"acl", "setuser", "viewer", "reset", "on", ">secret"}
		for _, rule := range rules {
			args = append(args, rule)
		}
		require.NoError(t, p.Redis.Do(t.Context(), args...).Err())
		return locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Username: "viewer", Password: "secret"})
	}
	rules := documentedRights(t)
	client := viewer(t, rules)
	assert.ElementsMatch(t, want, names(list(t, client, inspect.ListOptions{})), "without keys that it may not read")
	locktest.Await(t, "the waiter, which is in Redis' queue, has subscribed, too", func() bool {
		return slices.Equal([]string{"app:fair"}, names(list(t, client, inspect.ListOptions{Contended: true})))
	})
	assert.Equal(t, "orders", processOf(t, &locktest.Place{Redis: client}, rt).Name)
	_, err = inspect.Look(t.Context(), client, "another")
	assert.ErrorContains(t, err, "NOPERM")
	_, err = inspect.Free(t.Context(), client, "app:lock")
	assert.ErrorContains(t, err, "NOPERM")
	assert.NotEmpty(t, look(t, p.Redis, "app:lock").Holders)

	for i, rule := range rules {
		if !strings.HasPrefix(rule, "+") || rule == "+hello" || rule == "+ping" {
			continue
		}
		less := viewer(t, append(append([]string{}, rules[:i]...), rules[i+1:]...))
		var failed error
		for _, err := range inspect.List(t.Context(), less, inspect.ListOptions{}) {
			failed = err
		}
		if !assert.Error(t, failed, "without %s", rule) {
			continue
		}
		assert.Contains(t, strings.ToLower(failed.Error()), rule[1:], "the error names the missing command")
	}
}
