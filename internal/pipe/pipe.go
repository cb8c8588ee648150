// Package pipe connects clients to a miniredis in the same process. It uses pipes in memory instead of sockets, so it also works in a bubble of
// testing/synctest, where clients and server share the bubble's fake time.
package pipe

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// NewServer starts a server that expires keys as time passes. The server is closed at the end of the test.
func NewServer(tb testing.TB) *miniredis.Miniredis {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	tb.Cleanup(server.Close)
	return server
}

// address appears in the options of clients and in errors. Nobody connects to it.
const address = "127.0.0.1:6379"

// Link is the connections of one client to a server. The zero value is a link that is not cut.
type Link struct {
	mu      sync.Mutex
	open    []net.Conn
	cut     bool
	refused bool // a connection was refused
}

// Cut breaks the link's connections. Until Heal, new connections are refused.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, pipe := range l.open {
		_ = pipe.Close()
	}
	l.open = nil
}

// Heal allows new connections.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

// IsCut reports whether the link is cut.
func (l *Link) IsCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// dial connects to the server. While the link is cut, it fails as if no server were listening.
func (l *Link) dial(server *miniredis.Miniredis) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		l.refused = true
		refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)), Err: refused}
	}
	pipe, err := server.Dial()
	if err != nil {
		return nil, err
	}
	l.open = append(l.open, pipe)
	return drain(pipe), nil
}

// Client returns a client that uses this link only.
func (l *Link) Client(server *miniredis.Miniredis) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                     address,
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return l.dial(server) },
		DialerRetries:            1, // go-redis holds a mutex while it pauses between retries, and that stops a bubble's time
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// AwaitEnd gives a closed client of the link the time to end its goroutines. Only a client whose connections were refused needs a long time, because
// go-redis then checks only once a second whether it may stop dialing.
func (l *Link) AwaitEnd() {
	l.mu.Lock()
	refused := l.refused
	l.mu.Unlock()
	if refused {
		<-time.After(1100 * time.Millisecond)
	}
}
