// Package actors is the engine of a runtime: it builds and ends its actors, routes each request to the actor of its name, and carries out
// what that actor's machine decides. It makes no promise of compatibility; users meet it through the handles of the root package and
// through the messages of package protocol.
//
//	guardian holdfast-<uuid>       one per runtime, parent of the others; Close stops it and waits
//	 |- front-00 ... front-15      messages of users' actors -> requests                                    front.go porter.go api/
//	 |- subscriber                 channel -> actors that wait                                              pubsub/
//	 |- announcer                  keeps Options.Process written in Redis, if it is set                     announce.go
//	 |- demand                     which lingering locks others want, if Options.Linger is set              demand.go
//	 `- watchdog                   the timer wheel: which leases are due                                    watchdog/
//
// Every name in use has an actor per family of kinds, holdfast-<uuid>/<number>:<name>: the shell of a machine (shell.go, machine.go). The
// registry (registry.go) is an object that finds it, or spawns it, and lets it stop when it is idle.
//
// The gateways (gateway/) are objects, which take script calls from any goroutine and post the results: two for locks, of which a lock always
// takes the same (and two for their acquires, if replicas have to acknowledge those), and one for the watchdog, whose calls must not wait
// behind acquires. On a cluster each has one for each master.
//
// A machine thinks in steps: state, message and time in, effects out. There are three of them: lock.State for a lock with one contender and
// one grant at a time, lock.Group for several, counter.State for semaphores and latches. They are tested by transcripts. The shell
// of a machine gives it the time, and does what touches other actors. ARCHITECTURE.md says what runs on which goroutine.
//
// Requests go through the registry, which knows whether the actor of a name still lives. A goroutine's release of a lease goes straight to
// the actor, and so do results, channel messages and the watchdog's news: the actor does not stop while it waits for one of those.
//
// The packages below know nothing of each other but what a test in the root says (architecture_test.go):
//
//	api        messages of users' actors to requests, and answers to messages
//	clock      time and timers
//	mailbox    how protoactor runs an actor
//	outbox     messages to the user's actors, events
//	trace      Options.Trace, and the counts of Stats
//	redisnode  which server decides about a key, its clock, its errors in words
//	watchdog   renews leases before they expire
//	gateway    calls to Redis
//	pubsub     who waits on which channel
//	turns      when a process that has just had a lock may try again
//	lease      what one caller holds, and until when
//	wait       what machines have in common about waiting
//	lock       the machine of locks
//	counter    the machine of semaphores and latches
//	rpc        a script call on its way
//	preflight  Runtime.Check
package actors
