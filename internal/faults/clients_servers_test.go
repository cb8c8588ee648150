package faults_test

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// clientServers has the servers for all kinds of clients of go-redis: single servers, a cluster, and a master with Sentinels.
type clientServers struct {
	single         *redistest.Server // has a user with a password
	user, password string
	socket         string // the Unix socket of single
	encrypted      *redistest.Server
	trusting       *tls.Config // makes a client trust the certificate of `encrypted`
	cluster        *redistest.Cluster
	guarded        *redistest.Guarded
	lookers        []*redis.Client // a client for each of these servers except the Sentinels
}

func startClientServers(t *testing.T) *clientServers {
	authority := redistest.NewAuthority(t)
	s := &clientServers{
		single: redistest.Start(t), user: "app", password: "secret",
		encrypted: redistest.StartTLS(t, authority, time.Hour),
		trusting:  authority.Trusting(),
		cluster:   redistest.SharedReplicated(t), guarded: redistest.SharedGuarded(t),
	}
	look := s.single.Client(t)
	require.NoError(t, look.ACLSetUser(t.Context(), s.user, "on", ">"+s.password, "~*", "&*", "+@all").Err())
	s.socket = look.ConfigGet(t.Context(), "unixsocket").Val()["unixsocket"]
	s.lookers = []*redis.Client{look, tlsClient(t, s.encrypted.Addr(), s.trusting)}
	servers := append(append([]*redistest.Server(nil), s.cluster.Masters...), s.cluster.Replicas...)
	for _, server := range append(servers, s.guarded.Servers...) {
		s.lookers = append(s.lookers, server.Client(t))
	}
	return s
}

func (s *clientServers) sentinels() (addrs []string) {
	for _, sentinel := range s.guarded.Sentinels {
		addrs = append(addrs, sentinel.Addr())
	}
	return addrs
}

// replica returns the address of a server that accepts no writes.
func (s *clientServers) replica() string {
	for _, server := range s.guarded.Servers {
		if server != s.guarded.Master() {
			return server.Addr()
		}
	}
	return ""
}

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
