package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates. Programs that have its Pool trust it.
type Authority struct {
	tb   testing.TB
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	made int64
}

// NewAuthority makes an authority for this test.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, dir: tb.TempDir()}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = a.sign("authority", template, time.Hour)
	return a
}

// Pool returns the root certificates for a tls.Config that trusts the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Client returns a certificate with which a client proves its identity.
func (a *Authority) Client() tls.Certificate {
	cert, key := a.sign("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, time.Hour)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// Files returns the files of the authority's certificate, and of a client's certificate and key, in PEM form.
func (a *Authority) Files() (ca, cert, key string) {
	a.tb.Helper()
	a.Client()
	file := func(name string) string { return filepath.Join(a.dir, name) }
	return file("authority.crt"), file("client.crt"), file("client.key")
}

// sign makes a certificate that is valid for the given time (negative: expired), and writes it and its key to files for
// redis-server.
func (a *Authority) sign(name string, template *x509.Certificate, good time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	a.made++
	template.SerialNumber, template.Subject = big.NewInt(a.made), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(good)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	a.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	a.must(err)
	for file, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		a.must(os.WriteFile(filepath.Join(a.dir, name+file), pem.EncodeToMemory(block), 0o600))
	}
	cert, err := x509.ParseCertificate(der)
	a.must(err)
	return cert, key
}

func (a *Authority) must(err error) {
	a.tb.Helper()
	if err != nil {
		a.tb.Fatalf("redistest: certificates: %v", err)
	}
}

// StartTLS is Start for a server that accepts only TLS. The authority signs a certificate for 127.0.0.1, which the server uses. The
// certificate is valid for the time `good`. The server requires certificates of its clients, unless args contain "--tls-auth-clients", "no".
func StartTLS(tb testing.TB, a *Authority, good time.Duration, args ...string) *Server {
	tb.Helper()
	a.sign("server", &x509.Certificate{
		IPAddresses: []net.IP{net.ParseIP(host)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // nodes of a cluster are clients, too
	}, good)
	file := func(name string) string { return filepath.Join(a.dir, name) }
	server := start(tb, append([]string{
		"--tls-cert-file", file("server.crt"), "--tls-key-file", file("server.key"), "--tls-ca-cert-file", file("authority.crt"),
	}, args...), func(in *instance) { in.tls = true })
	server.trusting = a.Trusting()
	return server
}

// Trusting returns a configuration for clients of the authority's servers, with which both sides prove their identity.
func (a *Authority) Trusting() *tls.Config {
	return &tls.Config{RootCAs: a.Pool(), Certificates: []tls.Certificate{a.Client()}, MinVersion: tls.VersionTLS12}
}

// StartTLSCluster is StartCluster for masters that accept only TLS. The masters also use TLS between themselves.
func StartTLSCluster(tb testing.TB, a *Authority, masters int, nodeTimeout time.Duration) *Cluster {
	tb.Helper()
	return startCluster(tb, masters, 0, nodeTimeout, []string{"--tls-cluster", "yes", "--tls-replication", "yes"}, func(args ...string) *Server {
		return StartTLS(tb, a, time.Hour, args...)
	})
}
