package redistest

import (
	"testing"
	"time"
)

// These are shared by all tests of this test binary, like the server (Shared). Main closes them.
var (
	sharedCluster    sharedBy[Cluster]
	sharedReplicated sharedBy[Cluster]
	sharedGuarded    sharedBy[Guarded]
)

// SharedCluster returns a cluster of three masters that all tests of this test binary share, as Shared does for a server.
func SharedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	shared := sharedCluster.get(tb, func(tb testing.TB) *Cluster { return StartCluster(tb, 3, 0, 15*time.Second) })
	shared.tb = tb
	return &shared
}

// SharedReplicated returns a shared cluster of three masters, each with a replica.
func SharedReplicated(tb testing.TB) *Cluster {
	tb.Helper()
	shared := sharedReplicated.get(tb, func(tb testing.TB) *Cluster { return StartCluster(tb, 3, 1, 15*time.Second) })
	shared.tb = tb
	return &shared
}

// SharedGuarded returns a master with its replica and sentinels that all tests of this test binary share. None of them may be stopped or killed.
func SharedGuarded(tb testing.TB) *Guarded {
	tb.Helper()
	shared := sharedGuarded.get(tb, func(tb testing.TB) *Guarded { return StartGuarded(tb, 15*time.Second) })
	shared.tb = tb
	return &shared
}
