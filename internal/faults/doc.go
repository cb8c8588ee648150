// Package faults contains only tests. They show what the runtime does when Redis, the network or a process misbehaves. SAFETY.md names,
// for each hazard, the tests that show it. With -short or the race detector, only parts of the tests run.
package faults
