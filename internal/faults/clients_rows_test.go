package faults_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/redis/go-redis/v9/push"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// clientRows returns the rows of the table in doc/operations.md, in its order.
func clientRows() []clientRow {
	return append(append(append(constructors(), refused()...), connecting()...), append(talking(), tuning()...)...)
}

func constructors() []clientRow {
	return []clientRow{
		{"`NewClient`", works, []makeClient{onServer(func(*redis.Options) {})}},
		{"`NewClient(…).WithTimeout`", works, []makeClient{func(t *testing.T, s *clientServers) redis.UniversalClient {
			return onServer(func(*redis.Options) {})(t, s).(*redis.Client).WithTimeout(time.Second)
		}}},
		{"`NewClusterClient`", works, []makeClient{onCluster(func(*redis.ClusterOptions) {})}},
		{"`NewFailoverClient`, with `MasterName` and `SentinelAddrs`", works, []makeClient{onSentinel(func(*redis.FailoverOptions) {})}},
		{"`NewFailoverClusterClient`", works, []makeClient{onSentinelCluster(func(*redis.FailoverOptions) {})}},
		{"`NewUniversalClient` with one address in `Addrs`", works, []makeClient{universal(func(s *clientServers, o *redis.UniversalOptions) {
			o.Addrs, o.Username, o.Password = []string{s.single.Addr()}, s.user, s.password
		})}},
		{"`NewUniversalClient` with several addresses, or `IsClusterMode`", works, []makeClient{
			universal(func(s *clientServers, o *redis.UniversalOptions) { o.Addrs = s.cluster.Addrs() }),
			universal(func(s *clientServers, o *redis.UniversalOptions) {
				o.Addrs, o.IsClusterMode = s.cluster.Addrs()[:1], true
			}),
		}},
		{"`NewUniversalClient` with `MasterName`", works, []makeClient{universal(func(s *clientServers, o *redis.UniversalOptions) {
			o.Addrs, o.MasterName = s.sentinels(), redistest.GuardedName
		})}},
		{"`NewUniversalClient` with `MasterName` and `RouteByLatency`, `RouteRandomly` or `IsClusterMode`", works, []makeClient{
			universalSentinel(func(o *redis.UniversalOptions) { o.RouteByLatency = true }),
			universalSentinel(func(o *redis.UniversalOptions) { o.RouteRandomly = true }),
			universalSentinel(func(o *redis.UniversalOptions) { o.IsClusterMode = true }),
		}},
	}
}

func refused() []clientRow {
	return []clientRow{
		{"`NewRing`", newRefuses, []makeClient{func(t *testing.T, s *clientServers) redis.UniversalClient {
			return closed(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": s.single.Addr()}}))
		}}},
		{"`AutoPipeline`, `AsyncAutoPipeline` and their `AutoPipelineOptions`", newRefuses, []makeClient{
			func(t *testing.T, s *clientServers) redis.UniversalClient {
				pipeliner, err := onServer(func(*redis.Options) {})(t, s).AutoPipeline()
				require.NoError(t, err)
				return pipeliner
			},
			func(t *testing.T, s *clientServers) redis.UniversalClient {
				pipeliner, err := onCluster(func(*redis.ClusterOptions) {})(t, s).AsyncAutoPipeline()
				require.NoError(t, err)
				return pipeliner
			},
		}},
		{"a type of your own", newRefuses, []makeClient{func(t *testing.T, s *clientServers) redis.UniversalClient {
			return struct{ redis.UniversalClient }{onServer(func(*redis.Options) {})(t, s)}
		}}},
		{"nil", newRefuses, []makeClient{
			func(*testing.T, *clientServers) redis.UniversalClient { return nil },
			func(*testing.T, *clientServers) redis.UniversalClient { return (*redis.Client)(nil) },
			func(*testing.T, *clientServers) redis.UniversalClient { return (*redis.ClusterClient)(nil) },
		}},
		{"`MaxRetries` or `MaxRedirects` below -1", newRefuses, append(both(
			func(o *redis.Options) { o.MaxRetries = -2 },
			func(o *redis.ClusterOptions) { o.MaxRetries = -2 },
		), onSentinel(func(o *redis.FailoverOptions) { o.MaxRetries = -2 }), onCluster(func(o *redis.ClusterOptions) { o.MaxRedirects = -2 }))},
		{"`NewClient` for a master of a cluster", findsChecks, []makeClient{func(t *testing.T, s *clientServers) redis.UniversalClient {
			return s.cluster.Masters[0].Client(t)
		}}},
		{"`NewClusterClient` for a server without a cluster", findsChecks, []makeClient{func(t *testing.T, s *clientServers) redis.UniversalClient {
			return closed(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.single.Addr()}, MaintNotificationsConfig: noMaintenance()}))
		}}},
		{"`NewClusterClient` for `cluster-preferred-endpoint-type unknown-endpoint`", findsChecks, []makeClient{
			func(t *testing.T, _ *clientServers) redis.UniversalClient {
				needUnknownEndpoints(t)
				cluster := redistest.StartCluster(t, 1, 0, time.Minute, "--cluster-preferred-endpoint-type", "unknown-endpoint")
				return cluster.Client(t)
			},
		}},
		{"`NewClient` for a Sentinel", findsChecks, []makeClient{func(t *testing.T, s *clientServers) redis.UniversalClient {
			return s.guarded.Sentinels[0].Client(t)
		}}},
		{"`NewClient` for a replica", findsChecks, []makeClient{func(t *testing.T, s *clientServers) redis.UniversalClient {
			return onServer(func(o *redis.Options) { o.Addr, o.Username, o.Password = s.replica(), "", "" })(t, s)
		}}},
		{"`ReplicaOnly`", findsChecks, []makeClient{onSentinel(func(o *redis.FailoverOptions) { o.ReplicaOnly = true })}},
	}
}

// connecting returns the rows for options that say how to reach a server.
func connecting() []clientRow {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return []clientRow{
		{"`Addr`, `NodeAddress`, `Network`: also a Unix socket", works, []makeClient{func(t *testing.T, s *clientServers) redis.UniversalClient {
			return onServer(func(o *redis.Options) { o.Network, o.Addr = "unix", s.socket })(t, s)
		}}},
		{"`Dialer`", works, both(func(o *redis.Options) { o.Dialer = dial }, func(o *redis.ClusterOptions) { o.Dialer = dial })},
		{"`TLSConfig`", works, []makeClient{func(t *testing.T, s *clientServers) redis.UniversalClient {
			return tlsClient(t, s.encrypted.Addr(), s.trusting)
		}}},
		{"`DB` of a server or with Sentinel; a cluster has one database", works, []makeClient{
			onServer(func(o *redis.Options) { o.DB = 3 }),
			onSentinel(func(o *redis.FailoverOptions) { o.DB = 3 }),
			onSentinelCluster(func(o *redis.FailoverOptions) { o.DB = 3 }),
		}},
		{"`Username` and `Password`; `SentinelUsername` and `SentinelPassword` are the Sentinels'", works, []makeClient{
			func(t *testing.T, s *clientServers) redis.UniversalClient {
				return onServer(func(o *redis.Options) { o.Username, o.Password = s.user, s.password })(t, s)
			},
		}},
		{"`CredentialsProvider`, `CredentialsProviderContext`, `StreamingCredentialsProvider`", works, []makeClient{
			provided(func(o *redis.Options, user, password string) {
				o.CredentialsProvider = func() (string, string) { return user, password }
			}),
			provided(func(o *redis.Options, user, password string) {
				o.CredentialsProviderContext = func(context.Context) (string, string, error) { return user, password, nil }
			}),
			provided(func(o *redis.Options, user, password string) {
				o.StreamingCredentialsProvider = streaming{auth.NewBasicCredentials(user, password)}
			}),
		}},
		{"`ClientName`, `IdentitySuffix`, `DisableIdentity` (`DisableIndentity`)", works, both(
			func(o *redis.Options) { o.ClientName, o.IdentitySuffix = "me", "mine" },
			func(o *redis.ClusterOptions) { o.ClientName, o.DisableIdentity = "me", true },
		)},
		{"`OnConnect`", works, both(
			func(o *redis.Options) { o.OnConnect = pingOnConnect },
			func(o *redis.ClusterOptions) { o.OnConnect = pingOnConnect },
		)},
		{"`OnConnect` that fails", findsChecks, both(
			func(o *redis.Options) { o.OnConnect = failOnConnect },
			func(o *redis.ClusterOptions) { o.OnConnect = failOnConnect },
		)},
		{"`ClusterSlots`", works, []makeClient{func(t *testing.T, s *clientServers) redis.UniversalClient {
			looker := s.cluster.Client(t)
			return onCluster(func(o *redis.ClusterOptions) {
				o.ClusterSlots = func(ctx context.Context) ([]redis.ClusterSlot, error) { return looker.ClusterSlots(ctx).Result() } //nolint:staticcheck // SHARDS is new in Redis 7
			})(t, s)
		}}},
		{"`NewClient` of `ClusterOptions`", works, []makeClient{onCluster(func(o *redis.ClusterOptions) { o.NewClient = redis.NewClient })}},
		{"`UseDisconnectedReplicas`", works, []makeClient{onSentinel(func(o *redis.FailoverOptions) { o.UseDisconnectedReplicas = true })}},
	}
}

// talking returns the rows for options that change how a client talks to a server.
func talking() []clientRow {
	return []clientRow{
		{"`Protocol` 2 and 3", works, append(
			both(func(o *redis.Options) { o.Protocol = 2 }, func(o *redis.ClusterOptions) { o.Protocol = 2 }),
			both(func(o *redis.Options) { o.Protocol = 3 }, func(o *redis.ClusterOptions) { o.Protocol = 3 })...,
		)},
		{"`ReadOnly`, `RouteByLatency`, `RouteByLatencyTolerance`, `RouteRandomly`", works, []makeClient{
			onCluster(func(o *redis.ClusterOptions) { o.ReadOnly = true }),
			onCluster(func(o *redis.ClusterOptions) { o.RouteByLatency, o.RouteByLatencyTolerance = true, time.Millisecond }),
			onCluster(func(o *redis.ClusterOptions) { o.RouteRandomly = true }),
		}},
		{"any `ReadTimeout` and `WriteTimeout`; one that is longer than 5 s, -1 or -2 counts as 5 s. For a lease shorter than 3.75 s, the limit is 4/3 of the lease instead, but at least 0.5 s", works, append(append(
			timedOut(-1), timedOut(-2)...), timedOut(time.Minute)...,
		)},
		{"`ContextTimeoutEnabled`", works, both(
			func(o *redis.Options) { o.ContextTimeoutEnabled = true },
			func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = true },
		)},
		{"`MaxRetries`, `MinRetryBackoff`, `MaxRetryBackoff`, `MaxRedirects`", works, append(both(
			func(o *redis.Options) { o.MaxRetries = -1 },
			func(o *redis.ClusterOptions) { o.MaxRetries, o.MaxRedirects = -1, -1 },
		), both(
			func(o *redis.Options) { o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 5, -1, -1 },
			func(o *redis.ClusterOptions) { o.MaxRetries, o.MaxRedirects = 5, 5 },
		)...)},
		{"`PoolSize` 1, also with `MaxActiveConns` 1", works, append(both(
			func(o *redis.Options) { o.PoolSize = 1 },
			func(o *redis.ClusterOptions) { o.PoolSize = 1 },
		), both(
			func(o *redis.Options) { o.PoolSize, o.MaxActiveConns, o.PipelinePoolSize = 1, 1, -1 },
			func(o *redis.ClusterOptions) { o.PoolSize, o.MaxActiveConns, o.PipelinePoolSize = 1, 1, -1 },
		)...)},
		{"`Limiter`", works, []makeClient{onServer(func(o *redis.Options) { o.Limiter = allowing{} })}},
		{"`Limiter` that refuses everything", findsChecks, []makeClient{onServer(func(o *redis.Options) { o.Limiter = allowing{errors.New("no")} })}},
		{"`MaintNotificationsConfig`: nil, `ModeAuto`, `ModeDisabled`", works, append(
			maintained(nil), maintained(&maintnotifications.Config{Mode: maintnotifications.ModeAuto})...,
		)},
		{"`MaintNotificationsConfig`: `ModeEnabled` for a server that knows no such notifications", findsChecks,
			maintained(&maintnotifications.Config{Mode: maintnotifications.ModeEnabled})},
		{"`PushNotificationProcessor`", works, both(
			func(o *redis.Options) { o.PushNotificationProcessor = push.NewProcessor() },
			func(o *redis.ClusterOptions) { o.PushNotificationProcessor = push.NewProcessor() },
		)},
		{"`ClientSideCacheConfig`, `ClientSideCache`, `ClientSideCacheStrategy`, `ClientSideCacheRefreshOnInvalidate`, " +
			"`ClientSideCacheCoalesceMisses`, `ClientSideCacheInvalidationBatchWindow`", works, []makeClient{onServer(func(o *redis.Options) {
			o.ClientSideCacheConfig, o.ClientSideCacheCoalesceMisses = &redis.ClientSideCacheConfig{}, true
		})}},
	}
}

// tuning returns the rows for options that change how fast or how expensive a client is.
func tuning() []clientRow {
	return []clientRow{
		{"`DialTimeout`, `DialerRetries`, `DialerRetryTimeout`, `DialerRetryBackoff`, `MaxConcurrentDials`", works, both(
			func(o *redis.Options) { o.DialTimeout, o.DialerRetries, o.MaxConcurrentDials = time.Second, 1, 1 },
			func(o *redis.ClusterOptions) {
				o.DialTimeout, o.DialerRetries, o.MaxConcurrentDials = time.Second, 1, 1
			},
		)},
		{"`PoolFIFO`, `PoolTimeout`, `MinIdleConns`, `MaxIdleConns`, `ConnMaxIdleTime`, `ConnMaxLifetime`, `ConnMaxLifetimeJitter`", works, both(
			func(o *redis.Options) { o.PoolFIFO, o.MinIdleConns, o.ConnMaxLifetime = true, 1, 100*time.Millisecond },
			func(o *redis.ClusterOptions) {
				o.MaxIdleConns, o.ConnMaxIdleTime, o.ConnMaxLifetime = 1, 50*time.Millisecond, 100*time.Millisecond
			},
		)},
		{"`ReadBufferSize`, `WriteBufferSize`, `PipelineReadBufferSize`, `PipelineWriteBufferSize`, `PipelinePoolSize`", works, both(
			func(o *redis.Options) { o.ReadBufferSize, o.PipelineReadBufferSize, o.PipelinePoolSize = 512, 512, 1 },
			func(o *redis.ClusterOptions) {
				o.WriteBufferSize, o.PipelineWriteBufferSize, o.PipelinePoolSize = 512, 512, 1
			},
		)},
		{"`FailingTimeoutSeconds`, `ShardPicker`, `DisableRoutingPolicies`, `ClusterStateReloadInterval`, `UnstableResp3`", works, []makeClient{
			onCluster(func(o *redis.ClusterOptions) {
				o.FailingTimeoutSeconds, o.DisableRoutingPolicies, o.ClusterStateReloadInterval = 1, true, time.Hour
			}),
		}},
	}
}

// onSentinelCluster makes a Sentinel client that may read from replicas. The function `change` sets further options.
func onSentinelCluster(change func(o *redis.FailoverOptions)) makeClient {
	return func(t *testing.T, s *clientServers) redis.UniversalClient {
		options := &redis.FailoverOptions{MasterName: redistest.GuardedName, SentinelAddrs: s.sentinels()}
		change(options)
		return likeSentinels(t, redis.NewFailoverClusterClient(options), s.guarded)
	}
}

func universalSentinel(change func(o *redis.UniversalOptions)) makeClient {
	return func(t *testing.T, s *clientServers) redis.UniversalClient {
		options := &redis.UniversalOptions{MasterName: redistest.GuardedName, Addrs: s.sentinels()}
		change(options)
		return likeSentinels(t, redis.NewUniversalClient(options), s.guarded)
	}
}

// provided makes a client that gets the user's name and password from a provider.
func provided(provide func(o *redis.Options, user, password string)) makeClient {
	return func(t *testing.T, s *clientServers) redis.UniversalClient {
		return onServer(func(o *redis.Options) {
			o.Username, o.Password = "", ""
			provide(o, s.user, s.password)
		})(t, s)
	}
}

type streaming struct{ credentials auth.Credentials }

func (s streaming) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return s.credentials, func() error { return nil }, nil
}

func pingOnConnect(ctx context.Context, conn *redis.Conn) error { return conn.Ping(ctx).Err() }

func failOnConnect(context.Context, *redis.Conn) error { return errors.New("no") }

func timedOut(d time.Duration) []makeClient {
	return both(func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = d, d }, func(o *redis.ClusterOptions) { o.ReadTimeout, o.WriteTimeout = d, d })
}

func maintained(config *maintnotifications.Config) []makeClient {
	return both(
		func(o *redis.Options) { o.MaintNotificationsConfig = config },
		func(o *redis.ClusterOptions) { o.MaintNotificationsConfig = config },
	)
}

// allowing is a limiter that allows everything if err is nil, and nothing otherwise.
type allowing struct{ err error }

func (a allowing) Allow() error     { return a.err }
func (allowing) ReportResult(error) {}
