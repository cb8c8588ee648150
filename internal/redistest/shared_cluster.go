package redistest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// sharedCluster is the one cluster of this test binary. Main closes it.
var sharedCluster struct {
	once    sync.Once
	cluster *Cluster
	end     keeper
	err     error
}

// SharedCluster is a cluster of three masters that all tests of this test binary use together, as Shared is for a server.
func SharedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	s := &sharedCluster
	s.once.Do(func() {
		defer func() {
			if value := recover(); value != nil {
				s.err = fmt.Errorf("%v", value)
			}
		}()
		s.cluster = StartCluster(&s.end, 3, 0, 15*time.Second)
	})
	if s.err != nil {
		tb.Fatalf("redistest: %v", s.err)
	}
	shared := *s.cluster
	shared.tb = tb
	return &shared
}

// keeper has what one test would have started live on after it.
type keeper struct {
	testing.TB // for what is not called
	ends       []func()
}

func (*keeper) Helper()                        {}
func (k *keeper) Cleanup(end func())           { k.ends = append(k.ends, end) }
func (*keeper) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

func (k *keeper) close() {
	for _, end := range slices.Backward(k.ends) {
		end()
	}
}
