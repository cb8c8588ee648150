// Package faults has only tests: what the runtime does while Redis, the network or a process does not do what it should. Each
// test stands in SAFETY.md beside the hazard that it is about. Without the race detector they run in full, with it in part.
package faults
