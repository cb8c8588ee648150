package faults_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
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

// Over TLS, with certificates on both sides, every kind works as without TLS.
func TestFault_EveryKindOverTLS(t *testing.T) {
	t.Parallel()
	authority := redistest.NewAuthority(t)
	server := redistest.StartTLS(t, authority, time.Hour)
	config := authority.Trusting()
	runtime := func(lease time.Duration) *holdfast.Runtime {
		return locktest.NewRuntime(t, tlsClient(t, server.Addr(), config), holdfast.Options{Lease: lease})
	}
	rt, other := runtime(4*time.Second), runtime(0)
	require.NoError(t, rt.Check(t.Context()))
	for _, kind := range locktest.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			p := &locktest.Place{Kind: kind, Addr: server.Addr(), Name: redistest.Name(t), Redis: tlsClient(t, server.Addr(), config)}
			held := locktest.Acquire(t, p.Lock(rt))
			waiting := p.Lock(other).AcquireAsync(t.Context())
			p.WaitForWaiter(t, other)
			awaitRenewal(t, held)
			locktest.Release(t, held)
			next, err := waiting.Lease()
			require.NoError(t, err)
			locktest.Release(t, next)
		})
	}
}

// TestFault_ClusterOverTLS has a cluster that accepts only TLS. The client's TLS options are used for every master, including one that has no slots
// yet. go-redis does not know that master; the runtime does.
func TestFault_ClusterOverTLS(t *testing.T) {
	t.Parallel()
	const slot = 3
	authority := redistest.NewAuthority(t)
	cluster := redistest.StartTLSCluster(t, authority, 2, 15*time.Second)
	empty := cluster.Grow()
	runtime := func() *holdfast.Runtime {
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cluster.Addrs(), TLSConfig: authority.Trusting(),
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		return locktest.NewRuntime(t, client, holdfast.Options{Lease: locktest.Unhurried(1500 * time.Millisecond)})
	}
	rt, other := runtime(), runtime()
	require.NoError(t, rt.CheckFor(t.Context(), holdfast.KindLock))
	for _, slot := range []int{slot, 16000} {
		name := nameIn(t, slot)
		held := locktest.Acquire(t, rt.Lock(name))
		waiting := other.Lock(name).AcquireAsync(t.Context())
		awaitSharded(t, cluster, name)
		locktest.Renewed(t, held)
		locktest.Release(t, held)
		next, err := waiting.Lease()
		require.NoError(t, err)
		locktest.Release(t, next)
	}
	held := locktest.Acquire(t, rt.Lock(nameIn(t, slot)))
	cluster.Move(slot, cluster.Masters[0], empty, func() { locktest.Renewed(t, held) })
	locktest.Renewed(t, held)
	locktest.Release(t, held)
}

func tlsClient(t *testing.T, addr string, config *tls.Config) *redis.Client {
	return locktest.ClientWith(t, &redis.Options{Addr: addr, TLSConfig: config, MaxRetries: -1, DialerRetries: 1})
}

// If the server or the client does not prove its identity, the connection is refused, the error says why, and no lock is reported as held. The
// runtime has no option that turns these checks off.
func TestFault_UnverifiedTLSIsRefused(t *testing.T) {
	t.Parallel()
	authority, stranger := redistest.NewAuthority(t), redistest.NewAuthority(t)
	both := &tls.Config{RootCAs: authority.Pool(), Certificates: []tls.Certificate{authority.Client()}}
	good := redistest.StartTLS(t, authority, time.Hour).Addr()
	for what, c := range map[string]struct {
		addr   string
		config *tls.Config // nil without TLS
		says   string
		typed  func(error) bool
	}{
		"without the CA":               {good, &tls.Config{}, "certificate", isError[x509.UnknownAuthorityError]},
		"with another CA":              {good, &tls.Config{RootCAs: stranger.Pool()}, "certificate", isError[x509.UnknownAuthorityError]},
		"for another server":           {good, &tls.Config{RootCAs: authority.Pool(), ServerName: "other"}, "other", isError[x509.HostnameError]},
		"for an old certificate":       {redistest.StartTLS(t, authority, -time.Hour).Addr(), both, "expired", isError[x509.CertificateInvalidError]},
		"without a certificate":        {good, &tls.Config{RootCAs: authority.Pool()}, "certificate", anyError},
		"with a stranger's":            {good, &tls.Config{RootCAs: authority.Pool(), Certificates: []tls.Certificate{stranger.Client()}}, "", anyError},
		"without TLS":                  {good, nil, "", anyError},
		"of a server that speaks none": {redistest.Start(t).Addr(), both, "", anyError},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			rt := locktest.NewRuntime(t, tlsClient(t, c.addr, c.config), holdfast.Options{Lease: sickLease})
			_, err := rt.Lock(redistest.Name(t)).TryAcquire(t.Context())
			checked := rt.Check(t.Context())
			for _, err := range []error{err, checked} {
				require.Error(t, err)
				assert.ErrorContains(t, err, c.says)
				assert.True(t, c.typed(err), "%T %v", err, err)
				t.Log(err)
			}
		})
	}
}

func isError[E error](err error) bool { var e E; return errors.As(err, &e) }

func anyError(err error) bool { return err != nil }
