// Package actors is the engine of a runtime: it starts and ends the runtime's actors, routes each request to the actor of the requested name, and
// carries out what that actor's machine decides. The package makes no promise of compatibility. Users reach it through the handles of the root
// package and the messages of package protocol.
//
//	guardian holdfast-<uuid>       one per runtime, parent of the others; Close stops it and waits
//	 |- front-00 ... front-15      messages of users' actors -> requests                                    front.go porter.go api/ requesters.go
//	 |- subscriber                 channel -> actors that wait                                              pubsub/
//	 |- announcer                  keeps Options.Process written in Redis, if it is set                     announce.go
//	 |- demand                     learns which locks other processes want, if Options.Linger is set        demand.go
//	 `- watchdog                   the timer wheel: which leases are due                                    watchdog/
//
// While a name is in use, it has one actor, holdfast-<uuid>/<number>, for each family of kinds that uses the name. Readers and writers share a
// family; every other kind is a family of its own. The actor is a shell (shell.go) around a machine (machine.go). The registry (registry.go) is an
// object, not an actor: it finds or provides the actor of a name, and gives an idle actor another name, or stops it.
//
// The gateways (gateway/) are objects that take script calls from any goroutine and post the results. Two gateways send the calls of locks, and each
// lock always uses the same one of the two. If replicas have to acknowledge acquires, two more gateways send the acquires. Renewals have a gateway
// of their own, because they must not wait behind acquires; the announcer uses this gateway, too. On a cluster, each gateway has one part for each
// master.
//
// A machine works in steps: state, message and time go in, effects come out. There are three machines. lock.State is for a lock with one contender
// and one grant at a time, lock.Group is for a lock with several contenders or grants, and counter.State is for semaphores and latches. Transcripts
// test the machines. The shell of a machine gives it the time, and carries out the effects. ARCHITECTURE.md says what runs on which goroutine.
//
// Most requests go through the registry, which knows whether the actor of a name still lives. These messages go straight to the actor: releases by
// goroutines, results, channel messages, and the watchdog's messages. They need no registry: while an actor needs such a message it is not idle, so
// it keeps its name; it ignores the others. Inspects and force-releases need no machine: inspect.go makes their calls.
//
// These are the packages below this one. A test in the root package (architecture_test.go) limits their imports of each other.
//
//	api        turns messages of users' actors into requests, and answers into messages
//	clock      time and timers
//	mailbox    how protoactor runs an actor
//	outbox     messages to the user's actors, events
//	trace      Options.Trace, and the counts of Stats
//	redisnode  the Redis servers: which one has a key, their clocks, explanations of their errors
//	watchdog   renews leases before they expire
//	gateway    calls to Redis
//	pubsub     which actor waits on which channel
//	turns      when a waiting process tries for a lock
//	lease      what one caller holds, and until when
//	wait       requests, their queue, and what goes in and out of a machine's step
//	lock       the machine of locks
//	counter    the machine of semaphores and latches
//	rpc        a script call in flight and its result
//	preflight  Runtime.Check
package actors
