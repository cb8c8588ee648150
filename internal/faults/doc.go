// Package faults contains only tests. They show what the runtime does when Redis, the network or a process misbehaves. SAFETY.md lists each test
// beside the hazard that it is about. Without the race detector they run in full, with it in part.
package faults
