package redistest

import (
	"sync"
	"testing"
)

// shared is the one server of this test binary. Main closes it.
var shared struct {
	once sync.Once
	in   *instance
	err  error
}

// Shared returns the server that all tests of this test binary share. The first call starts it, and Main
// ends it, so the package needs a TestMain that calls Main. Tests keep out of each other's way by unique
// names (Name). They never flush the server, and may not pause, kill or restart it.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.once.Do(startShared)
	if shared.err != nil {
		tb.Fatalf("redistest: %v", shared.err)
	}
	return &Server{tb: tb, in: shared.in, shared: true}
}

func startShared() {
	in, err := newInstance(nil)
	if err != nil {
		shared.err = err
		return
	}
	if shared.err = in.startOnFreePort(); shared.err != nil {
		in.close()
		return
	}
	shared.in = in
}

func stopShared() {
	sharedCluster.end.close()
	sharedReplicated.end.close()
	sharedGuarded.end.close()
	if shared.in != nil {
		shared.in.close()
	}
}
