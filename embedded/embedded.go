// Package embedded runs a Redis server inside the process, for development, tests and demonstrations: nothing to install, nothing
// to configure, nothing stored on disk.
//
// The server is not for production. All data is in memory and lost on Close. It runs one command at a time and scans all keys to find
// expired ones, so it gets slower the more keys there are. It is miniredis with its clock running. Programs that do not import this
// package do not link miniredis.
//
// The server supports what locks need: scripts, expiry in real time, TIME, publish and subscribe, and both versions of the protocol.
// Differences from a real Redis:
//
//   - no sharded publish and subscribe (SPUBLISH, SSUBSCRIBE)
//   - no replicas (WAIT answers 0 at once), and no cluster
//   - no ACL, no memory limit and no eviction, no persistence, no functions (FUNCTION, FCALL), no CONFIG
//   - expired keys are removed when the next command scans for them, without a notification
//   - scripts run in another implementation of Lua, and are never interrupted
//
// Therefore, test the guarantees of a lock on a real server.
package embedded

import (
	"fmt"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Server is a running server with a client. Its methods are safe for concurrent use.
type Server struct {
	redis    *miniredis.Miniredis
	listener *server.Server
	addr     string
	client   *redis.Client

	once sync.Once
	err  error // result of the first Close
}

// Start runs an empty server on an unused port of 127.0.0.1, until Close.
func Start() (*Server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	s := &Server{redis: m, listener: m.Server(), addr: m.Addr()}
	s.client = redis.NewClient(&redis.Options{
		Addr: s.addr,
		// The server does not support maintenance notifications, so the client should not request them on each connection.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return s, nil
}

// Client returns the server's client, the same for every call. Server.Close closes the client.
func (s *Server) Client() redis.UniversalClient { return s.client }

// Addr returns the address of the server as host:port, for other clients and processes.
func (s *Server) Addr() string { return s.addr }

// Close closes the client and all connections, and ends the server. Further calls do nothing and return the result of the first.
func (s *Server) Close() error {
	s.once.Do(s.close)
	return s.err
}

// close closes the listener and the server at the same time, because each may have to wait for the other:
//   - redis.Close needs a mutex. If a subscriber does not read, a command that publishes to it holds this mutex until listener.Close closes
//     the subscriber's connection.
//   - listener.Close waits for the commands in progress. A command that blocks, such as BLPOP, ends only when redis.Close cancels it.
func (s *Server) close() {
	if err := s.client.Close(); err != nil {
		s.err = fmt.Errorf("embedded: close the client: %w", err)
	}
	disconnected := make(chan struct{})
	go func() {
		defer close(disconnected)
		s.listener.Close()
	}()
	s.redis.Close()
	<-disconnected
}
