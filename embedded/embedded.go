// Package embedded is a Redis inside the process, for development, tests and demonstrations: nothing to
// install, nothing to configure, nothing kept.
//
// It is not for production. All data is in memory and gone with Close. It runs one command at a time and
// looks at every key to find the expired ones, so it slows down as keys become many. The server is miniredis
// with its clock running; programs that do not import this package do not link it.
//
// It has what locks need: scripts, expiry in real time, TIME, publish and subscribe, both versions of the
// protocol. What differs from a real Redis:
//
//   - no sharded publish and subscribe (SPUBLISH, SSUBSCRIBE)
//   - WAIT answers 0 at once: there are no replicas, and no cluster
//   - no ACL, no memory limit and no eviction, no persistence, no functions (FUNCTION, FCALL), no CONFIG
//   - expired keys go when the next command looks, and nobody is notified of them
//   - scripts run in another Lua, and are never interrupted
//
// What is to be proven about a lock is therefore proven on a real server.
package embedded

import (
	"fmt"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Server is a running server and a client of it. Its methods are safe for concurrent use.
type Server struct {
	redis    *miniredis.Miniredis
	listener *server.Server
	addr     string
	client   *redis.Client

	once sync.Once
	err  error // of the one Close that did the work
}

// Start runs a server on an unused port of 127.0.0.1. It is empty, and runs until Close.
func Start() (*Server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	s := &Server{redis: m, listener: m.Server(), addr: m.Addr()}
	s.client = redis.NewClient(&redis.Options{
		Addr: s.addr,
		// The server knows no maintenance notifications: to ask for them on each connection is in vain.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return s, nil
}

// Client is a client of the server, the same for every call. Close closes it.
func (s *Server) Client() redis.UniversalClient { return s.client }

// Addr is where the server listens, as host:port, for clients of other kinds or in other processes.
func (s *Server) Addr() string { return s.addr }

// Close closes the client and every connection and ends the server. Further calls do nothing and return what
// the first one did.
func (s *Server) Close() error {
	s.once.Do(s.close)
	return s.err
}

// close ends the connections before it asks the server to end: a subscriber that does not read keeps the
// command that publishes to it, and with it the lock that the server's own Close needs first.
func (s *Server) close() {
	if err := s.client.Close(); err != nil {
		s.err = fmt.Errorf("embedded: close the client: %w", err)
	}
	s.redis.CtxCancel() // blocked commands return
	s.listener.Close()
	s.redis.Close()
}
