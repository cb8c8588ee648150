// Package machinetest is what the tests of the machines of locks and of counters share. The machines' own packages know the messages and
// what must hold.
//
//	transcript.go  plays files of testdata: messages above the dashes, and below what they made happen
//	player.go      the base of a transcript's player: the clock, the policy, how lines are read and written
//	world.go       the base of a random model: what happens, in order of time, and dice; all of it follows from a seed
//	process.go     one process of a random model, and what happens to it
//	network.go     the way of a script call to Redis and back
//	timing.go      whether a call has time to be sent and answered
package machinetest
