// Package lease describes what a caller holds, and until when. Any goroutine may read its values.
//
// The machine of a lock makes a Grant for each acquisition in Redis, and ends it. The watchdog moves the grant's deadline with every renewal. Each
// local holder has a Hold on the grant; several holds may share a grant, one after the other or together. The handles in the root package read holds,
// and call Claim to end them. The machine calls Lose when a lease is lost. If the holder is an actor, the shell of the lock's actor calls Claim when
// the holder releases the lease or has terminated.
//
//	address.go  the address of a lock
//	grant.go    an acquisition in Redis and its deadline; the watchdog's messages about it
//	hold.go     a local lease on a grant
//	ending.go   the end of a lease: channels, contexts and functions that wait for it
package lease
