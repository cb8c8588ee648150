// Package way measures the code path, or way, of an operation: how many functions run, in how many files, and how many messages are posted to
// actors. The test fails when a way exceeds its limit in the table `longest`. If you shorten a way, lower its limit.
//
// The program in walk runs each operation many times. It clears the coverage counters right before the operation and writes them 20 ms after it.
// A function counts if it runs in at least half of the repetitions.
package way
