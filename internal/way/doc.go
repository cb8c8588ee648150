// Package way measures how long the way of an operation through the library is: how many functions run, in how many files, and how
// often something is posted to an actor. Its test fails when a way gets longer than its table says; whoever shortens a way lowers the
// table.
//
// The program in walk runs each operation many times, with counters of coverage that are cleared right before the operation and
// written right after it. A function is on the way when it runs at least every second time.
package way
