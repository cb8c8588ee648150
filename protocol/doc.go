// Package protocol defines the actor message API of the runtime, its events, and its errors.
//
// # The actor message API
//
// An actor can use locks by sending messages instead of making calls: nothing blocks, and a grant is one more message to receive.
// The actor sends these requests to the PID of a lock (Lock.PID) and receives the answers at its own PID. Requests may be sent by
// value or by pointer; answers are always pointers.
//
//	request    answer                  meaning
//	Acquire    Granted | Refused       wait for the lock (or try once)
//	Cancel     -                       stop waiting; the Acquire is still answered, once
//	Release    Released                release one lease
//	Renew      Renewed                 set the remaining time of a fixed lease
//	Inspect    Inspected               read the holders and the waiters
//	-          Lost                    unsolicited: a lease ended without a Release
//
// See examples/actorapi for a complete actor.
//
// # Sending
//
//   - Send with Request or RequestWithCustomSender: the answer goes to the sender of the envelope. Root.Request has no sender.
//   - The sender must belong to the runtime's ActorSystem (Options.System, Runtime.System), because the messages are plain Go
//     structs that contain errors and a function, and cannot be serialized. For a remote actor, a local
//     actor must send the requests.
//   - A request names its lock in the fields Kind and Lock. Lock is the name that the method Lock.Name of the handle returns. The
//     request may go to the PID of any lock of the runtime, as long as the runtime exists.
//   - The requester chooses an ID for each request, and the answer has the same ID. The ID must be unique among the requester's
//     pending requests for one lock. If an Acquire has the ID of an Acquire that still waits, the new one is refused with
//     ErrInvalid, and the old one keeps waiting.
//   - A future (RequestFuture) may send Release, Renew and Inspect. An Acquire from a future is refused with ErrInvalid: the
//     runtime watches the requester of an Acquire, and a protoactor future completes as soon as it is watched.
//
// A message of any other type, a message without a reachable sender, and a Cancel with an invalid kind or name are dropped and
// reported as RequestDropped events. Any other mistake in a request is reported in the Err of its answer.
//
// # Answers
//
// Every Acquire, Release, Renew and Inspect is answered exactly once, whatever happens to Redis, to the network and to other
// actors. Requesters need no timeouts of their own. In the following table, "Redis is silent" means that it has not answered for
// a third of Options.Lease (at least 1 s, at most 10 s). The answer arrives
//
//	to an Acquire   when the lock is granted, when its Wait elapses, after a Cancel, or when Redis is silent; an Acquire with
//	                Try is answered after one attempt
//	to a Release    when Redis has confirmed it, when the lease would have expired, or when Redis is silent
//	to a Renew      when Redis has confirmed it, when the lease is lost, or when Redis is silent
//	to an Inspect   within about 2 s
//
// Distinguish failures with errors.Is. An Acquire is refused with
//
//	ErrNotAcquired      the lock is taken (Try), the Wait elapsed, or a Cancel arrived; errors.As to *BusyError gives the holder
//	ErrTooManyWaiters   Options.MaxWaiters acquires are already waiting
//	ErrForeignKey       the key in Redis holds something else
//	ErrNotReplicated    fewer than Options.AckReplicas replicas have acknowledged the grant, which is undone
//	ErrUpgrade          the owner of a read lock asked for the write lock
//	ErrInvalid          a mistake: kind, name, owner, durations, an ID in use
//	ErrClosed           the runtime is closing or shutting down
//
// An Acquire may also be refused with an error of Redis or of the connection. If a refused Acquire may have acquired the lock in
// Redis, the runtime releases the lock.
//
// # Leases
//
// Granted means that the requester holds a lease. The lease is named by a Serial, which a runtime never uses twice. Release and
// Renew need only the serial, so other actors may send them, too. A late Release never affects the next holder, because the serial
// names the lease and not the lock. Every lease ends exactly once, in one of these ways:
//
//	Released, Err nil                 released: the lock is free, passed to the next holder, or still held under other leases
//	Released, Err is ErrLeaseLost     released too late: Redis no longer had the lease
//	Released, another Err             ended, but Redis has not confirmed the release: the lock may stay taken until the lease expires
//	Lost, Err is ErrLeaseLost         expired, deleted, force-released, lost in a failover, ... (LossReason has all)
//	Lost, Err is ErrClosed            the runtime closes, and releases the lock
//	the requester terminates          see below
//
// A lease acquired without Acquire.Lease is renewed until it ends. A fixed lease ends with Lost, unless a Renew prolongs it or a
// Release arrives first.
//
// Lost is an ordinary message in a mailbox, and may arrive late. Call Granted.Valid immediately before anything that must not be
// done without the lock. Valid reads the clock. It returns false as soon as the lease may have expired in Redis. So if a lease
// expires, Valid returns false before anyone else can acquire the lock. If a lock was deleted or force-released, Lost may take a
// third of Options.Lease to arrive, and the lock may have another holder by then.
//
// If the runtime has already sent Lost when a Release of the same lease arrives, the Released has ErrNotHeld or ErrClosed. The
// same applies to the answer to a second Release, and to a Release with an unknown serial.
//
// # Order
//
// An actor's requests for one lock are processed in the order in which the actor sent them, if all went to the same PID. An actor
// receives the messages about one lock in the order of the events: the Granted of a lease before its Lost or Released. If a
// Release lets another Acquire of the same actor succeed, the Granted may arrive before the Released. There is no order between
// the messages about two locks. If a Cancel arrives after the lock was granted, the actor still receives the Granted, and has to
// release the lease.
//
// # The end of the requester
//
// An actor with a pending Acquire or a lease is watched. When it terminates (stopped, poisoned, stopped by its supervisor), its
// waits end and its leases are released at once. If Redis cannot be reached, the leases expire instead, at the latest
// one lease duration after their acquire or last renewal.
//
// If an actor panics on *actor.Stopped, protoactor notifies nobody of its end. The next renewal of the lock in this process notices the end;
// until then the actor's waits and leases stay. A fixed lease is not renewed, so it stays until it expires.
//
// A restart after a panic does not end the actor: its PID, its mailbox, its waits and its leases stay. But it loses its state and
// the message on which it panicked, which may have been a Granted. So choose one of two ways. Either let the supervisor stop the
// actor (with WithGuardian, or WithSupervisor of its parent). Or record the serial before anything that may panic, and release
// the lease when the failed actor receives *actor.Restarting.
//
// If a new actor has the name of a terminated one, locks mistake it for the terminated one. So wait for Terminated before you
// reuse a name. If you do not wait, the new actor may get answers to the requests of the terminated one. It must then release the
// lease of a Granted that it did not request, and ignore a Lost with an unknown serial. When a lock notices the termination of
// the old actor, it also refuses the Acquires of the new actor that wait at this moment, and ends the new actor's leases with Lost.
//
// An actor's synchronized dispatcher or full mailbox may block the delivery of a message. Then only the messages to that actor wait,
// in order, and a RequesterBlocked event reports this. The runtime itself does not block: locks, leases and other actors continue.
// The runtime still renews the leases of the blocked actor. So an actor that hangs keeps its locks, and so does a goroutine that
// hangs. A fixed lease limits the time for which the actor keeps a lock.
//
// # The end of the runtime
//
// Runtime.Shutdown refuses every pending and every new Acquire with ErrClosed. The exception is an Acquire with which an owner
// re-enters a lock that it holds. Leases are renewed and released as before. When the last lease has ended, the runtime closes.
//
// Runtime.Close refuses every pending Acquire with ErrClosed, ends every lease with a Lost whose Err is ErrClosed, and releases the locks. When it
// returns, all actors have been notified. Requests that arrive during Close are refused with ErrClosed. Requests that arrive later
// have no receiver: protoactor answers the sender with an *actor.DeadLetterResponse, which names no request.
//
// # Terms
//
//	name    what the user locks; the kind says how (KindLock, ...)
//	owner   who holds a lock and may re-enter it: an explicit Owner, or an owner made for a single acquire
//	grant   one acquisition in Redis; its ID, "runtimeUUID:number", is the field in the lock's hash. A number is never used twice
//	lease   what one caller holds, named by its own Serial; its deadline is the instant just before the last successful
//	        acquire or renewal was sent, plus the length of the lease, minus 1 % and 2 ms
//	turn    the time from when a process acquires the lock in Redis until other processes may have it; the process may pass the
//	        lock on among its own waiters meanwhile
//	wake-up an unlock message, a resubscription, or a fallback timer: a reason to retry
//	attempt one script call; running it twice has the same effect as running it once
package protocol
