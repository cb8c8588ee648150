// Package protocol is the language of the runtime: the messages of its actors, the words in them, and the errors.
//
// # The actor message API
//
// Any actor may use locks by messages instead of calls: nothing blocks, and a lock is one more message to wait for. It sends these
// requests to the PID of a lock (Lock.PID) and gets the answers at its own PID. Values and pointers serve; answers are pointers.
//
//	request    answer                  meaning
//	Acquire    Granted | Refused       wait for the lock (or try once)
//	Cancel     -                       stop waiting; the Acquire is still answered, once
//	Release    Released                give one lease back
//	Renew      Renewed                 set what is left of a fixed lease
//	Inspect    Inspected               who holds it, who waits
//	           Lost                    unasked: a lease ended without a Release
//
// examples/actorapi has such an actor.
//
// # Sending
//
//   - Send with Request or RequestWithCustomSender: the answer goes to the sender of the envelope. Root.Request names no sender.
//   - The sender must be of the same ActorSystem as the runtime (Options.System, Runtime.System): the messages are plain Go structs
//     with errors and a function in them, and do not travel. For a remote actor let a local one ask.
//   - A request names its lock by Kind and Lock, as Lock.Name has it. Any lock's PID will do, it is good for as long as the runtime
//     is. It cannot be stopped; to stop is for the runtime.
//   - A request has an ID of the requester's own choice, which the answer echoes. It needs to be unique among the requester's open
//     requests about one lock: an Acquire whose ID waits already is refused with ErrInvalid, and the first one waits on.
//   - A future (RequestFuture) may send Release, Renew and Inspect. An Acquire from it is refused with ErrInvalid: the requester of
//     an Acquire is watched, and a watch completes a protoactor future.
//
// What is none of these messages, or has no sender that could be told, is dropped and reported as a RequestDropped event. So is a
// Cancel that names no possible lock. Whatever else may be wrong with a request is its answer's Err.
//
// # Answers
//
// Every Acquire, Release, Renew and Inspect is answered exactly once, whatever happens to Redis, to the network and to other
// actors; a requester that waits for an answer needs no timeout of its own. It comes
//
//	to an Acquire   when the lock is granted, at the end of its Wait, after a Cancel, or when Redis has not answered for a third of
//	                Options.Lease (1 s to 10 s); with Try after one attempt
//	to a Release    when Redis has confirmed it, or when the lease would be over
//	to a Renew      when Redis has confirmed it, when the lease is lost, or when Redis has not answered for as long as that
//	to an Inspect   within some 2 s
//
// Err tells failures apart, with errors.Is. An Acquire is refused with
//
//	ErrNotAcquired      the lock is taken (Try), the Wait has ended, or a Cancel came; errors.As to *BusyError tells by whom it is held
//	ErrTooManyWaiters   Options.MaxWaiters wait already
//	ErrForeignKey       the key in Redis holds something else
//	ErrUpgrade          the owner of a read lock asks for the write lock
//	ErrInvalid          a mistake: kind, name, owner, times, an ID in use
//	ErrClosed           the runtime is closing or shutting down
//
// or with what Redis, or the way to it, has to say. What an Acquire that was refused may have got in Redis is given back by the
// runtime.
//
// # Leases
//
// Granted says that the requester holds a lease, and names it by a Serial that is never used twice in a runtime. The serial is all
// that Release and Renew need, whoever sends them: pass it on to have another actor release. It names a lease, not the lock: a late
// Release can never touch the next holder. Every lease ends once, in one of these ways:
//
//	Released, Err nil                 given back: the lock is free, or with the next holder
//	Released, Err is ErrLeaseLost     given back too late: it was gone from Redis before
//	Released, another Err             over for the requester; Redis did not confirm, the lock comes free within its lease
//	Lost, Err is ErrLeaseLost         expired, deleted, force-released, failed over away
//	Lost, Err is ErrClosed            the runtime closes, and releases it
//	the requester terminates          see below
//
// A lease that was asked for without Acquire.Lease is renewed until then. One with a fixed length ends by Lost unless Renew
// prolongs it or Release comes before.
//
// Lost is one message among others in a mailbox, and may come late: whoever is about to do what must not be done without the lock
// calls Granted.Valid right before. It looks at the clock, and is false from the instant on at which the lease may be over in Redis,
// before anybody else can get the lock by expiry. A lock that somebody has deleted or force-released may have another holder
// before Lost is here: by then a third of Options.Lease may have passed.
//
// When Lost and a Release cross, the Released that follows has ErrNotHeld, or ErrClosed; so has the answer to a second Release,
// and to one with a serial that means nothing.
//
// # Order
//
// Requests of one actor about one lock are taken in the order in which they were sent, if they were sent to the same PID. What one
// lock has to say to one actor arrives in the order in which it happened: the Granted of a lease before its Lost or Released. The
// Granted of another acquire that waits may come before the Released that made way for it. Between two locks there is no order.
// A Cancel may find its Acquire granted: then Granted arrives, and the lease has to be released.
//
// # The end of the requester
//
// Whoever has an Acquire open or holds a lease is watched. When it terminates (stopped, poisoned, stopped by its supervisor), its
// waits end and its leases are released, at once if Redis can be reached, and else by expiry, within one lease of the last renewal.
//
// A restart after a panic is not the end: PID and mailbox stay, and so do waits and leases. What is lost is the state of the actor,
// and the message that it panicked over; it may have been a Granted. So either let its supervisor stop it (with WithGuardian, or
// WithSupervisor of its parent), or note the serial before anything that may panic and release on *actor.Restarting, which the
// actor that failed gets to see.
//
// An actor that is spawned under the name of one that has terminated is to the locks the same requester. Wait for Terminated
// before the name is used again, or be ready for answers to the other one's requests: release a Granted that was not asked for,
// ignore a Lost of an unknown serial. Waits that the new one has begun before the locks knew of the end are refused.
//
// An actor that is told something is never waited for. If telling it blocks, on a synchronized dispatcher or at a full mailbox,
// all that there is to tell it waits, in order, and RequesterBlocked reports it; locks, leases and everybody else go on. Its own
// leases are renewed meanwhile: an actor that hangs holds what it holds, as a goroutine would. A fixed lease bounds that.
//
// # The end of the runtime
//
// Runtime.Shutdown refuses every open Acquire and every new one with ErrClosed, except for those by which an owner re-enters what it
// holds. Leases are renewed and released as before. When the last one has ended, the runtime closes.
//
// Runtime.Close refuses every open Acquire and ends every lease by Lost, both with ErrClosed, and releases the locks. Everybody has
// been told when it returns. Requests that come meanwhile are refused with ErrClosed. For one that comes afterwards nobody is left;
// protoactor then tells the sender by an *actor.DeadLetterResponse, which names no request.
//
// # The words
//
//	name    what the user locks; kind says how (KindLock, ...)
//	owner   who may re-enter; an explicit Owner, or one made for a single acquire
//	grant   one acquisition in Redis; its ID, "runtimeUUID:number", is the field in the lock's hash. A number is never used twice
//	lease   what one caller holds, named by a Serial of its own; its deadline is the instant before the last successful
//	        acquire or renew was sent, plus the lease, minus 1 % and 2 ms
//	turn    one grant and the leases that it served, one local holder after another
//	wake-up an unlock message, a resubscription, or a fallback timer: a reason to try again
//	attempt one script call, repeatable: running it twice has the effect of once
package protocol
