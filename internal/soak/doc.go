// Package soak has only tests: everything at once, for as long as one likes. Runtimes that come and go use all kinds of locks behind
// links that break, on a server that crashes, stalls, forgets its scripts and changes its password. Once a minute all of it comes to rest, and is looked at:
// who was valid when, what is left in Redis, what the process has grown to.
//
// A soak begins with a quiet round, without faults. In later rounds of a long run the processes may not run more than three times as many
// scripts per second, nor open many more connections than the faults break, and 5 s after the last fault every process must have had every lock.
// Leases last for a second, so a machine that stands still for that long is a fault too, which the test did not make: stalls are measured
// after the last fault. They add to the 5 s, and calls that fail in one longer than an attempt waits for its answer are repeated.
//
// TestSoakCluster is the same on a cluster: masters fail over, planned or not, and slots move; in a long run a dead master stays down for a
// minute. A failover that was not planned forgets what was written last, but by then the leases of the dead master are over, so nothing else
// is excused: only a Semaphore's permits may be missing, or too many, and leases after a failover that the machine's load has brought about.
//
//	go test ./internal/soak -v -timeout 0 -run 'TestSoak$' -soak.for 30m -soak.report internal/soak/REPORT.md
package soak
