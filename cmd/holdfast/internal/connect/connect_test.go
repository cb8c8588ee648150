package connect

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpen_Forms(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://host":                    "Redis<host:6379 db:0>",
		"redis://u:p%40w@host:1/2":        "Redis<host:1 db:2>",
		"rediss://host":                   "Redis<host:6379 db:0>",
		"unix:///run/redis.sock":          "Redis</run/redis.sock db:0>",
		"redis://s1,s2?master=m":          "Redis<FailoverClient db:0>",
		"redis://a:1,b":                   "cluster",
		"redis://u:p@a:1,redis://u:p@b:2": "cluster",
		"redis://a?cluster=true":          "cluster",
		"rediss://a,b?skip_verify=true":   "cluster",
		"redis://[::1]:7000,[::2]":        "cluster",
	} {
		client, err := Open(url)
		require.NoError(t, err, url)
		switch client := client.(type) {
		case *redis.Client:
			assert.Equal(t, want, client.String(), url)
		case *redis.ClusterClient:
			assert.Equal(t, want, "cluster", url)
			assert.Subset(t, []string{"a:1", "b:6379", "b:2", "a:6379", "[::1]:7000", "[::2]:6379"}, client.Options().Addrs, url)
		}
		assert.NoError(t, client.Close())
	}
}

func TestOpen_SaysWhatIsWrongWithoutPasswords(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "host:6379", "http://secret@host", "redis://u:secret%zz@host", "redis://u:secret@host:port", "redis://u:sec/secret@host",
		"redis://u:secret@host/x", "redis://u:secret@host?nonsense=1", "redis://u:secret@a,,b", "redis://u:secret@a,b/3",
		"redis://u:secret@a?cluster=maybe", "redis://u:secret@a?ca=/x", "rediss://u:secret@a?ca=/no/such/file", "rediss://u:secret@a?cert=x",
		"redis://u:secret\x7f@host", "unix://", "redis://:/secret=@host", "redis://u:9/secret=@host:1", "redis://u:9?secret=x@host",
		"redis://u:9?db=secret@host", "redis://u:9#secret@host", "redis://:#secret@host",
	} {
		_, err := Open(url)
		if assert.Error(t, err, url) {
			assert.NotContains(t, err.Error(), "secret", url)
		}
	}
}
