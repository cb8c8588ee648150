// Package faults contains only tests. They show what the runtime does when Redis, the network or a process misbehaves. SAFETY.md lists each test
// beside the hazard that it is about. With -short or the race detector, only parts of them run.
package faults
