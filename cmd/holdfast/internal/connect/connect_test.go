package connect

import (
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func unwarned(string) {}

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
		client, err := Open(url, unwarned)
		require.NoError(t, err, url)
		switch client := client.(type) {
		case *redis.Client:
			assert.Equal(t, want, client.String(), url)
			assert.Equal(t, 1, client.Options().DialerRetries, url)
		case *redis.ClusterClient:
			assert.Equal(t, want, "cluster", url)
			assert.Equal(t, 1, client.Options().DialerRetries, url)
			assert.Subset(t, []string{"a:1", "b:6379", "b:2", "a:6379", "[::1]:7000", "[::2]:6379"}, client.Options().Addrs, url)
		}
		assert.NoError(t, client.Close())
	}
}

// Every parameter that a single server's client honours is also honoured by the clients of clusters and Sentinels.
func TestOpen_ParametersOfGoRedis(t *testing.T) {
	t.Parallel()
	const parameters = "protocol=2&client_name=me&max_retries=7&min_retry_backoff=11ms&max_retry_backoff=70ms&dial_timeout=3s&read_timeout=4s" +
		"&write_timeout=6s&pool_fifo=true&pool_size=17&pool_timeout=8s&min_idle_conns=2&max_idle_conns=9&max_active_conns=23" +
		"&max_concurrent_dials=3&pipeline_pool_size=4&pipeline_read_buffer_size=70000&pipeline_write_buffer_size=80000" +
		"&conn_max_idle_time=40m&conn_max_lifetime=50m&conn_max_lifetime_jitter=5m&skip_verify=true"
	fields := []string{
		"Protocol", "ClientName", "MaxRetries", "MinRetryBackoff", "MaxRetryBackoff", "DialTimeout", "ReadTimeout",
		"WriteTimeout", "PoolFIFO", "PoolSize", "PoolTimeout", "MinIdleConns", "MaxIdleConns", "MaxActiveConns",
		"MaxConcurrentDials", "PipelinePoolSize", "PipelineReadBufferSize", "PipelineWriteBufferSize",
		"ConnMaxIdleTime", "ConnMaxLifetime", "ConnMaxLifetimeJitter",
	}
	want, err := redis.ParseURL("rediss://host?" + parameters)
	require.NoError(t, err)
	for _, url := range []string{"rediss://host?", "rediss://a,b?", "rediss://a?cluster=true&", "rediss://a,b?master=m&"} {
		client, err := Open(url+parameters, unwarned)
		require.NoError(t, err, url)
		var options any
		switch client := client.(type) {
		case *redis.Client:
			options = *client.Options()
			assert.True(t, client.Options().TLSConfig.InsecureSkipVerify, url)
		case *redis.ClusterClient:
			options = *client.Options()
			assert.True(t, client.Options().TLSConfig.InsecureSkipVerify, url)
		}
		for _, field := range fields {
			expected := reflect.ValueOf(*want).FieldByName(field)
			require.False(t, expected.IsZero(), field)
			assert.Equal(t, expected.Interface(), reflect.ValueOf(options).FieldByName(field).Interface(), url+" "+field)
		}
		assert.NoError(t, client.Close())
	}
}

// A parameter that a client cannot honour is refused, not ignored.
func TestOpen_ParametersThatDoNotApply(t *testing.T) {
	t.Parallel()
	for url, parameter := range map[string]string{
		"redis://a?sentinel_user=x":               "sentinel_user",
		"redis://a,b?sentinel_password=secret":    "sentinel_password",
		"redis://a,b?master=":                     "master",
		"redis://a,b?master=m&cluster=true":       "cluster",
		"redis://a,b/1":                           "database",
		"unix:///run/redis.sock?master=m":         "master",
		"unix:///run/redis.sock?cluster=true":     "cluster",
		"rediss://a,b?pool_sise=3":                "pool_sise",
		"redis://a,b?master=m&skip_verify=true":   "skip_verify",
		"redis://a,b?server_name=x":               "server_name",
		"redis://a,b?master=m&read_timeout=never": "read_timeout",
	} {
		_, err := Open(url, unwarned)
		if assert.Error(t, err, url) {
			assert.ErrorContains(t, err, parameter, url)
			assert.NotContains(t, err.Error(), "secret", url)
		}
	}
}

// With such numbers go-redis would panic, or would send nothing and report success.
func TestOpen_NumbersOutOfRange(t *testing.T) {
	t.Parallel()
	for _, parameter := range []string{
		"pool_size=-1", "pool_size=2147483648", "pipeline_pool_size=2147483648", "min_idle_conns=2147483648", "max_idle_conns=2147483648",
		"max_active_conns=2147483648", "max_retries=-2",
	} {
		name, _, _ := strings.Cut(parameter, "=")
		for _, url := range []string{"redis://a?", "redis://a?cluster=true&", "redis://a?master=m&"} {
			_, err := Open(url+parameter, unwarned)
			assert.ErrorContains(t, err, name, url+parameter)
		}
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
		_, err := Open(url, unwarned)
		if assert.Error(t, err, url) {
			assert.NotContains(t, err.Error(), "secret", url)
		}
	}
}

// A Redis without TLS does not answer a handshake.
func TestOpen_WarnsOfAServerWithoutTLS(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, parameters := range []string{"", "&cluster=true", "&master=m"} {
		var warning atomic.Pointer[string]
		client, err := Open("rediss://"+server.Addr()+"?dial_timeout=100ms"+parameters, func(text string) { warning.Store(&text) })
		require.NoError(t, err)
		var dial dialer
		switch client := client.(type) {
		case *redis.Client:
			dial = client.Options().Dialer
		case *redis.ClusterClient:
			dial = client.Options().Dialer
		}
		_, err = dial(t.Context(), "tcp", server.Addr())
		assert.Error(t, err)
		if assert.NotNil(t, warning.Load(), parameters) {
			assert.Contains(t, *warning.Load(), server.Addr())
			assert.Contains(t, *warning.Load(), "plain Redis")
		}
		assert.NoError(t, client.Close())
	}
}
