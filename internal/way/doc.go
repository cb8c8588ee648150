// Package way measures the way of an operation through the library: how many functions run, in how many files, and how many messages are posted
// to actors. Its test fails when a way is longer than its table says. If you shorten a way, lower its limit.
//
// The program in walk runs each operation many times. It clears the coverage counters right before the operation and writes them right after it.
// A function counts if it runs in at least half of the repetitions.
package way
