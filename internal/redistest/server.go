// Package redistest gives tests real redis-server processes on loopback ports: one for a single test
// (Start), or one that all tests of a package share (Shared, ended by Main).
//
// A server keeps nothing on disk, and is killed when its test ends. On Linux it dies with the test process, even if
// the test process is killed by SIGKILL. Without a redis-server the test fails; it is not skipped.
package redistest

import (
	"crypto/tls"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Server is a test's view of a redis-server process. A method that cannot do its work fails the test.
type Server struct {
	tb     testing.TB
	in     *instance
	shared bool // other tests use it too: it may not be stopped or killed
	looker *redis.Client

	trusting *tls.Config // nil if the server does not use TLS
}

// Start runs a redis-server for this test alone and returns when it answers. It listens on an unused port of
// 127.0.0.1, and writes no snapshots and no append-only file. args are appended to its command line; they
// override these settings, and may add others ("--maxmemory", "2mb"). With args, the server can be a cluster node
// ("--cluster-enabled", "yes"), a replica ("--replicaof", host, port) or a sentinel ("--sentinel").
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return start(tb, args, func(*instance) {})
}

// start is Start with a function that changes the instance before it starts.
func start(tb testing.TB, args []string, change func(*instance)) *Server {
	tb.Helper()
	in, err := newInstance(args)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	change(in)
	tb.Cleanup(in.close)
	if err := in.startOnFreePort(); err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	return &Server{tb: tb, in: in}
}

// Addr returns the server's host:port. It stays the same over Kill and Restart.
func (s *Server) Addr() string { return s.in.addr() }

// URL returns the address in the form that redis.ParseURL reads.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// PID returns the id of the server's process. A Restart changes it.
func (s *Server) PID() int { return s.in.process().PID() }

// Options returns the options of Client, for tests that need to change them: go-redis's defaults, with
// maintenance notifications off, since redis-server does not know them.
func (s *Server) Options() *redis.Options {
	return &redis.Options{
		Addr:                     s.Addr(),
		TLSConfig:                s.trusting,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Client returns a new client of the server, which is closed when the test ends.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	client := redis.NewClient(s.Options())
	tb.Cleanup(func() { _ = client.Close() }) // a test may have closed it
	return client
}

// look returns the client with which this package inspects the server.
func (s *Server) look() *redis.Client {
	if s.looker == nil {
		s.looker = s.Client(s.tb)
	}
	return s.looker
}

// Log returns what the server has logged so far, for the message of a failed test.
func (s *Server) Log() string { return s.in.log() }
