package locktest

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// NewClient returns a new client for a server. It is closed when the test ends.
func NewClient(t *testing.T, addr string) *redis.Client {
	return ClientWith(t, &redis.Options{Addr: addr})
}

// ClientWith returns a client that is closed when the test ends. The client does not ask the server for maintenance notifications, because none of
// the tests' servers supports them.
func ClientWith(t *testing.T, options *redis.Options) *redis.Client {
	client := Unasking(options)
	atEnd(t, client, func(client *redis.Client) { assert.NoError(t, client.Close()) })
	return client
}

// Unasking is ClientWith, but the caller closes the client.
func Unasking(options *redis.Options) *redis.Client {
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options)
}

// ClusterClient returns a new client for a cluster. It is closed when the test ends.
func ClusterClient(t *testing.T, cluster *redistest.Cluster) *redis.ClusterClient {
	return clusterClient(t, cluster, nil)
}

func clusterClient(
	t *testing.T, cluster *redistest.Cluster, dial func(ctx context.Context, network, addr string) (net.Conn, error),
) *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Dialer: dial, Addrs: cluster.Addrs(), MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	atEnd(t, client, func(client *redis.ClusterClient) { assert.NoError(t, client.Close()) })
	return client
}

// NewRuntime returns a runtime, which logs nothing unless the options have a Logger. It is closed when the test ends: see CloseAtEnd.
func NewRuntime(t *testing.T, client redis.UniversalClient, options holdfast.Options) *holdfast.Runtime {
	t.Helper()
	if options.Logger == nil {
		options.Logger = Quiet()
	}
	rt, err := holdfast.New(client, options)
	require.NoError(t, err)
	CloseAtEnd(t, rt)
	return rt
}

// Quiet is a logger that says nothing.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// CloseAtEnd closes a runtime when the test ends. The test fails if Close does not return in time, or returns an error. The only error that is
// allowed is the one that GaveUp recognizes, because the test may have left Redis unreachable.
func CloseAtEnd(t *testing.T, rt *holdfast.Runtime) {
	atEnd(t, rt, func(rt *holdfast.Runtime) {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := rt.Close(ctx); ctx.Err() != nil || !GaveUp(err) {
			assert.NoError(t, err)
		}
	})
}

// GaveUp reports whether Close gave up because Redis was silent for too long.
func GaveUp(err error) bool {
	return err != nil && strings.Contains(err.Error(), "what is still held expires")
}

// atEnd calls `do` with a value when the test ends, and keeps no reference to the value after that. A plain clean-up would keep the value of a
// parallel test in memory for too long: package testing keeps each clean-up, and all that it refers to, until the last test has ended.
func atEnd[V any](t *testing.T, had V, do func(V)) {
	t.Cleanup(func() {
		last := had
		had = *new(V)
		do(last)
	})
}
