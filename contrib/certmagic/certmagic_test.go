package certmagic_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/holdfast-go/holdfast"
	holdmagic "github.com/holdfast-go/holdfast/contrib/certmagic"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// authority issues certificates by itself, without ACME, and counts them.
type authority struct {
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	issued atomic.Int64
	refuse func() error // nil, or called before a certificate is issued
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{key: key, cert: cert}
}

func (*authority) IssuerKey() string { return "test" }

func (a *authority) Issue(_ context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if a.refuse != nil {
		if err := a.refuse(); err != nil {
			return nil, err
		}
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.issued.Add(1)), Subject: request.Subject, DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(20 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, request.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// instance is the certmagic of one process.
func instance(t *testing.T, storage certmagic.Storage, a *authority) *certmagic.Config {
	t.Helper()
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	t.Cleanup(cache.Stop)
	config = certmagic.New(cache, certmagic.Config{
		Storage: storage, Issuers: []certmagic.Issuer{a}, Logger: zap.NewNop(), OCSP: certmagic.OCSPConfig{DisableStapling: true},
	})
	return config
}

// Five processes start with one storage and no certificate. One of them obtains it, the others find it there.
func TestWrap_OneProcessObtainsTheCertificate(t *testing.T) {
	t.Parallel()
	redis, files, a := holdfasttest.New(t), t.TempDir(), newAuthority(t)
	var all sync.WaitGroup
	for range 5 {
		config := instance(t, holdmagic.Wrap(&certmagic.FileStorage{Path: files}, redis.Runtime(), "certmagic:"), a)
		all.Go(func() { assert.NoError(t, config.ManageSync(t.Context(), []string{"example.com"})) })
	}
	all.Wait()
	assert.EqualValues(t, 1, a.issued.Load())
}

// The first attempt loses the lock and fails. A later attempt acquires the lock again, or finds the certificate that another process has obtained
// meanwhile.
func TestWrap_AttemptsContinueAfterALoss(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"nobody else wants it": false, "another process is faster": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				redis, files, a := holdfasttest.New(t), t.TempDir(), newAuthority(t)
				obtain := func() error {
					storage := holdmagic.Wrap(&certmagic.FileStorage{Path: files}, redis.Runtime(), "certmagic:")
					return instance(t, storage, a).ObtainCertAsync(t.Context(), "example.com")
				}
				a.refuse = func() error {
					redis.Lose("certmagic:issue_cert_example.com")
					a.refuse = func() error { <-time.After(2 * time.Minute); return nil } // longer than the minute until the next attempt
					return errors.New("come back later")
				}
				began, obtained := time.Now(), make(chan error)
				go func() { obtained <- obtain() }()
				synctest.Wait()
				if elsewhere {
					assert.NoError(t, obtain())
				}
				assert.NoError(t, <-obtained)
				assert.Less(t, time.Since(began), time.Hour)
				assert.EqualValues(t, 1, a.issued.Load())
			})
		})
	}
}

func storages(t *testing.T) (redis *holdfasttest.Server, one, other certmagic.Storage) {
	t.Helper()
	redis = holdfasttest.New(t)
	wrap := func() certmagic.Storage {
		return holdmagic.Wrap(&certmagic.FileStorage{Path: t.TempDir()}, redis.Runtime(holdfast.Options{Lease: time.Second}), "certmagic:")
	}
	return redis, wrap(), wrap()
}

func TestWrap_LocksAmongProcesses(t *testing.T) {
	t.Parallel()
	_, one, other := storages(t)
	ctx := t.Context()
	require.NoError(t, one.Lock(ctx, "issue_cert_{é}"))
	free, err := other.(certmagic.TryLocker).TryLock(ctx, "issue_cert_{é}")
	require.NoError(t, err)
	assert.False(t, free)
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, other.Lock(short, "issue_cert_{é}"), context.DeadlineExceeded)
	assert.NoError(t, one.(certmagic.LockLeaseRenewer).RenewLockLease(ctx, "issue_cert_{é}", time.Hour))
	assert.NoError(t, one.Unlock(ctx, "issue_cert_{é}"))

	free, err = other.(certmagic.TryLocker).TryLock(ctx, "issue_cert_{é}")
	require.NoError(t, err)
	assert.True(t, free)
	assert.NoError(t, other.Unlock(ctx, "issue_cert_{é}"))
	assert.ErrorContains(t, other.Unlock(ctx, "a"), `unlock "a": it is not locked`)
	assert.ErrorContains(t, other.(certmagic.LockLeaseRenewer).RenewLockLease(ctx, "a", time.Hour), `renew "a": it is not locked`)
}

// One goroutine of a process has lost the lock, and another one has acquired it. The Unlock of the first does not release the lock of the second.
func TestWrap_LosersUnlockEndsNobodysLock(t *testing.T) {
	t.Parallel()
	redis, one, other := storages(t)
	ctx := t.Context()
	require.NoError(t, one.Lock(ctx, "a"))
	redis.Lose("certmagic:a")
	require.NoError(t, one.Lock(ctx, "a"), "once the loss is noticed")
	renewer := one.(certmagic.LockLeaseRenewer)
	assert.NoError(t, renewer.RenewLockLease(ctx, "a", time.Hour))

	assert.NoError(t, one.Unlock(ctx, "a"), "the loser's")
	free, err := other.(certmagic.TryLocker).TryLock(ctx, "a")
	require.NoError(t, err)
	assert.False(t, free)
	assert.NoError(t, renewer.RenewLockLease(ctx, "a", time.Hour))
	assert.NoError(t, one.Unlock(ctx, "a"))
}

// secretive is a storage with a password, which it leaves out of its description.
type secretive struct {
	certmagic.Storage
	Password string
}

func (*secretive) String() string { return "a secretive storage" }

// certmagic logs its storage. The wrapper describes it as the inner storage does, and never shows its fields.
func TestWrap_LogsAsTheInnerStorage(t *testing.T) {
	t.Parallel()
	rt := holdfasttest.New(t).Runtime()
	for _, c := range []struct {
		inner certmagic.Storage
		want  string
	}{
		{&secretive{Password: "hunter2"}, "a secretive storage"},
		{struct{ certmagic.Storage }{}, "struct { certmagic.Storage }"},
	} {
		fields := zapcore.NewMapObjectEncoder()
		zap.Any("storage", holdmagic.Wrap(c.inner, rt, "x:")).AddTo(fields)
		assert.Equal(t, map[string]any{"storage": c.want}, fields.Fields)
	}
}
