// Package actors is the behaviour of the runtime: who does what, and who tells whom. It is part of the engine and makes no
// promise of compatibility; users meet it through the handles of the root package and through the messages of protocol.
//
//	guardian holdfast-<uuid>       one per runtime, parent of everything; Close stops it and waits
//	 |- router-00 ... router-15    by hash of the name: name -> lock actor; spawns and retires them            router.go
//	 |    |- <family>:<name>       lock actor, one per name and family: the waiters, the grant, the turns      lock*.go
//	 |    `- <family>:<name>       count actor of a semaphore or latch: nothing is held, something is counted  count*.go
//	 |- gateway-0, gateway-1       script calls -> pipelines -> results; a lock always takes the same          gateway.go batch.go parcel.go
//	 |- renewals                   the same for the watchdog, whose calls do not wait behind acquires
//	 |    `- node-1 ...            on a cluster: one gateway for each master                                   exchange.go cluster.go
//	 |- subscriber                 channel -> lock actors that wait                                            subscriber.go link.go
//	 `- watchdog                   the timer wheel: which leases are due                                       watchdog.go
//
// A lock actor thinks in steps (lock_step.go): state and message in, effects out, tested by the transcripts in testdata. The
// shell around it (lock.go) is the only one that touches a clock or another actor. Whatever blocks runs on goroutines outside of
// the actors: the workers of the gateways, and the two of the link.
//
// Who may send what directly: a release goes straight to its lock actor, because a lock actor does not retire while one of its
// leases is out. Everything else goes through the router, the only one who knows whether the actor still lives.
package actors
