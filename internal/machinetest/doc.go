// Package machinetest is shared by the tests of the lock machine and the counter machine. The messages and assertions that only one machine needs are
// in that machine's own package.
//
//	transcript.go  plays files of testdata: messages above the dashes, their effects below
//	player.go      the base of a transcript's player: the clock, the policy, reading and writing lines
//	world.go       the base of a random model: its events in order of time, and random draws; the seed determines both
//	process.go     one process of a random model, and what happens to it
//	network.go     carries a script call to Redis and its reply back
//	timing.go      checks that a call has time to be sent and executed
package machinetest
