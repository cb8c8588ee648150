package holdfast_test

import (
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

// clusterRights are the rules that SECURITY.md adds for clusters.
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
	for range 10 { // over the masters
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
			assert.Equal(t, "ACL SETUSER less"+missing+" "+missing, found.Findings[0].Remedy, "once, although each master says it")
			assert.Contains(t, found.Findings[0].Why, "(at Redis at 127.0.0.1:")
		}
	}
}
