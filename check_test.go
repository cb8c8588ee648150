package holdfast_test

import (
	"context"
	"errors"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestCheck_FindsNothingWrong(t *testing.T) {
	t.Parallel()
	locktest.Everywhere(t, func(t *testing.T, p *locktest.Place) {
		rt := p.Runtime(t, holdfast.Options{})
		assert.NoError(t, rt.Check(t.Context()))
		assert.NoError(t, rt.Check(t.Context()), "a second time")
		for _, key := range p.KeysLike(t, "*") {
			assert.NotContains(t, key, rt.ID(), "Check leaves no key behind")
		}
	})
}

// asUser returns a runtime whose Redis user has only the rights that the rules grant.
func asUser(t *testing.T, server *redistest.Server, rules []string, options holdfast.Options) *holdfast.Runtime {
	const name, password = "app", "canary-password"
	rules = append([]string{"reset", "on", ">" + password}, rules...)
	require.NoError(t, server.Client(t).ACLSetUser(t.Context(), name, rules...).Err())
	return locktest.NewRuntime(t, locktest.ClientWith(t, &redis.Options{Addr: server.Addr(), Username: name, Password: password}), options)
}

// leastRights returns the rules that SECURITY.md recommends.
func leastRights(t *testing.T) []string {
	block := regexp.MustCompile("(?s)ACL SETUSER app on >PASSWORD (.*?)```").FindStringSubmatch(read(t, "SECURITY.md"))
	require.NotNil(t, block)
	return strings.Fields(block[1])
}

func appKeys(name string) string { return "app:" + name }

func TestCheck_UserWithTheRecommendedRights(t *testing.T) {
	t.Parallel()
	locktest.OnOwnServer(t, func(t *testing.T, p *locktest.Place) {
		rt := asUser(t, p.Server, leastRights(t), holdfast.Options{NameMapper: appKeys, Lease: locktest.Unhurried(1500 * time.Millisecond)})
		require.NoError(t, rt.Check(t.Context()))

		lease := locktest.Acquire(t, p.Lock(rt))
		other := asUser(t, p.Server, leastRights(t), holdfast.Options{NameMapper: appKeys})
		waiting := p.Lock(other).AcquireAsync(t.Context())
		p.WaitForWaiting(t, other, 1)
		p.WaitForListener(t)
		locktest.Renewed(t, lease)
		held, err := p.Lock(other).ForceRelease(t.Context())
		require.NoError(t, err)
		assert.True(t, held)
		lease, err = waiting.Lease()
		require.NoError(t, err)
		fixed := p.Lock(other).AcquireAsync(t.Context(), holdfast.WithLease(time.Minute))
		locktest.Release(t, lease)
		lease, err = fixed.Lease()
		require.NoError(t, err)
		_, err = p.Lock(rt).TryAcquire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrNotAcquired)
		state, err := p.Lock(rt).Inspect(t.Context())
		require.NoError(t, err)
		assert.True(t, state.Held)
		locktest.Release(t, lease)
	})
}

func TestCheck_NamesTheMissingRight(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, rule := range leastRights(t) {
		if rule == "+hello" || !strings.ContainsRune("+~&", rune(rule[0])) {
			continue // go-redis works without HELLO; a rule that does not begin with +, ~ or & grants no right
		}
		rules := slices.DeleteFunc(leastRights(t), func(r string) bool { return r == rule })
		require.NoError(t, server.Client(t).ScriptFlush(t.Context()).Err())
		err := asUser(t, server, rules, holdfast.Options{NameMapper: appKeys}).Check(t.Context())
		var found *holdfast.CheckError
		if assert.ErrorAs(t, err, &found, "without %s", rule) && assert.Len(t, found.Findings, 1, "without %s: %v", rule, err) {
			assert.Equal(t, "ACL SETUSER app "+rule, found.Findings[0].Remedy)
			assert.NotContains(t, err.Error(), "canary-password")
		}
	}
}

func TestCheck_WarnsOfEviction(t *testing.T) {
	t.Parallel()
	rt := locktest.NewRuntime(t, redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Client(t), holdfast.Options{})
	err := rt.Check(t.Context())
	assert.ErrorContains(t, err, "maxmemory-policy")
	assert.ErrorContains(t, err, "allkeys-lru")
	assert.ErrorContains(t, err, "noeviction")
}

func TestCheck_ServerOutOfReach(t *testing.T) {
	t.Parallel()
	rt := locktest.NewRuntime(t, locktest.ClientWith(t, &redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}), holdfast.Options{})
	err := rt.Check(t.Context())
	var network *net.OpError
	assert.ErrorAs(t, err, &network, "the error wraps the cause")

	server := redistest.Start(t)
	rt = locktest.NewRuntime(t, server.Client(t), holdfast.Options{})
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	assert.ErrorIs(t, rt.Check(ctx), context.DeadlineExceeded)
	assert.Less(t, time.Since(start), 2*time.Second)
}

// A cancelled Check returns the context's error, and no findings about the server.
func TestCheck_Cancelled(t *testing.T) {
	t.Parallel()
	rt := locktest.NewRuntime(t, redistest.Start(t).Client(t), holdfast.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := rt.Check(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	_, found := errors.AsType[*holdfast.CheckError](err)
	assert.False(t, found, "%v", err)
}

// Check names the Sentinels as the cause, although the errors of go-redis suggest a wrong password, or a cluster without host names.
func TestCheck_Sentinels(t *testing.T) {
	t.Parallel()
	for what, addr := range map[string]string{
		"unknown master": redistest.Start(t, "--sentinel").Addr(),
		"wrong password": redistest.Start(t, "--sentinel", "--requirepass", "right").Addr(),
		"out of reach":   "127.0.0.1:1",
	} {
		// With retries go-redis may need longer than DialTimeout. Then it returns a timeout, which does not name the Sentinels.
		options := &redis.FailoverOptions{MasterName: "misspelt", SentinelAddrs: []string{addr}, MaxRetries: -1, DialerRetries: 1}
		for _, client := range []redis.UniversalClient{redis.NewFailoverClient(options), redis.NewFailoverClusterClient(options)} {
			t.Cleanup(func() { assert.NoError(t, client.Close()) })
			err := locktest.NewRuntime(t, client, holdfast.Options{}).Check(t.Context())
			found, ok := errors.AsType[*holdfast.CheckError](err)
			require.True(t, ok, "%s: %v", what, err)
			require.Len(t, found.Findings, 1, what)
			assert.Contains(t, found.Findings[0].What, "Sentinel", what)
			assert.Contains(t, found.Findings[0].Remedy, "MasterName", what)
		}
	}
}

func TestCheck_WrongPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "right")
	rt := locktest.NewRuntime(t, locktest.ClientWith(t, &redis.Options{Addr: server.Addr(), Password: "canary-password"}), holdfast.Options{})
	err := rt.Check(t.Context())
	assert.ErrorContains(t, err, "WRONGPASS")
	assert.NotContains(t, err.Error(), "canary-password")
	_, err = rt.Lock(redistest.Name(t)).TryAcquire(t.Context())
	assert.ErrorContains(t, err, "WRONGPASS")
	assert.NotContains(t, err.Error(), "canary-password")
}

// clusterRights returns leastRights and the rules that SECURITY.md adds for clusters.
func clusterRights(t *testing.T) (rules []string) {
	paragraph := regexp.MustCompile(`(?s)\n- A cluster needs (.*?)\n- `).FindStringSubmatch(read(t, "SECURITY.md"))
	require.NotNil(t, paragraph)
	for _, quoted := range regexp.MustCompile("`[^`]*`").FindAllString(paragraph[1], -1) {
		for _, rule := range strings.Fields(strings.Trim(quoted, "`")) {
			if strings.HasPrefix(rule, "+") {
				rules = append(rules, rule)
			}
		}
	}
	return append(leastRights(t), rules...)
}

func TestCheck_UserOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, 15*time.Second)
	as := func(name string, rules []string) *holdfast.Runtime {
		rules = append([]string{"reset", "on", ">secret"}, rules...)
		for _, server := range append(slices.Clone(cluster.Masters), cluster.Replicas...) {
			require.NoError(t, server.Client(t).ACLSetUser(t.Context(), name, rules...).Err())
		}
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cluster.Addrs(), Username: name, Password: "secret",
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		t.Cleanup(func() { _ = client.Close() })
		return locktest.NewRuntime(t, client, holdfast.Options{NameMapper: appKeys, AckReplicas: 1})
	}
	rights := clusterRights(t)
	rt, other := as("all", rights), as("all", rights)
	require.NoError(t, rt.Check(t.Context()))
	for range 10 { // enough random names that their keys are on different masters
		name := redistest.Name(t)
		lease := locktest.Acquire(t, rt.Lock(name))
		pending := other.Lock(name).AcquireAsync(t.Context())
		cluster.AwaitListener("redisson_lock__channel:{" + appKeys(name) + "}")
		locktest.Release(t, lease)
		next, err := pending.Lease()
		require.NoError(t, err)
		locktest.Release(t, next)
	}
	for _, missing := range []string{"+spublish", "+ssubscribe", "+pubsub|shardnumsub", "+wait"} {
		less := slices.DeleteFunc(slices.Clone(rights), func(rule string) bool { return rule == missing })
		var found *holdfast.CheckError
		err := as("less"+missing, less).Check(t.Context())
		if assert.ErrorAs(t, err, &found, missing) && assert.Len(t, found.Findings, 1, "%v", err) {
			assert.Equal(t, "ACL SETUSER less"+missing+" "+missing, found.Findings[0].Remedy, "reported once, although every master reports it")
			assert.Contains(t, found.Findings[0].Why, "(at Redis at 127.0.0.1:")
		}
	}
}
