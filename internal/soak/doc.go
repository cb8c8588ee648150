// Package soak contains only tests, which combine many faults and run for as long as one likes. Runtimes start and end all the time. They use
// all kinds of locks over links that break, on a server that crashes, stalls, forgets its scripts and changes its password. Once a minute all
// users pause. The test then checks at which times leases were valid, which keys are left in Redis, and how much the process has grown.
//
// A soak begins with a quiet round, without faults. In later rounds of a long run, the processes may run at most three times as many scripts per
// second as in the quiet round. They may open at most three connections for each one that a fault disturbs. Within 5 s of the last fault every
// process must have acquired every lock. Leases last for only a second, so a stall of the machine has the effect of a fault. The test therefore adds
// five times the longest stall after the last fault to the 5 s. It also repeats a failed call if the machine stalled for longer than an attempt waits
// for its answer.
//
// TestSoakCluster is the same on a cluster, with more faults: masters fail over, planned or not, and slots move. In a long run some dead masters stay
// down for a minute. A failover that was not planned forgets the last writes, but by then the leases of the dead master have ended. So the test
// excuses only two things. A Semaphore may have too few or too many permits. And after a failover that the machine's load has caused, leases may
// overlap and tokens may decrease.
//
//	go test ./internal/soak -v -timeout 0 -run 'TestSoak$' -soak.for 30m -soak.report internal/soak/REPORT.md
package soak
