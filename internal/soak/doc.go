// Package soak contains only tests, which combine many faults and run for as long as one likes. Runtimes start and end all the time. They use
// all kinds of locks over links that break, on a server that crashes, stalls, forgets its scripts and changes its password. Once a minute all
// users pause. The test then checks at which times leases were valid, which keys are left in Redis, and how much the process has grown.
//
// A soak begins with a quiet round, without faults. In later rounds of a long run, the processes may run at most three times as many scripts per
// second as in the quiet round, and may open at most three connections for each one that a fault disturbs. Within 5 s of the last fault every
// process must have acquired every lock. Leases last for a second, so a stall of the machine for a second is a fault too, though not one that the
// test makes. So five times the longest stall after the last fault is added to the 5 s, and a failed call is repeated if there was a stall longer
// than an attempt waits for its answer.
//
// TestSoakCluster is the same on a cluster: masters fail over, planned or not, and slots move; in a long run a dead master stays down for a minute.
// A failover that was not planned forgets the last writes, but by then the leases of the dead master have ended. So only two things are excused:
// too few or too many permits of a Semaphore; and overlapping leases and decreasing tokens after a failover that the machine's load has caused.
//
//	go test ./internal/soak -v -timeout 0 -run 'TestSoak$' -soak.for 30m -soak.report internal/soak/REPORT.md
package soak
