// Package protocol is the language of the runtime: the messages of its actors, the words in them, and the errors.
//
// It is also the actor message API. Any actor may send these requests to the PID of a lock and gets the answer at its own PID:
//
//	request    answer                  meaning
//	Acquire    Granted | Refused       wait for the lock (or try once)
//	Cancel     -                       stop waiting; the Acquire is still answered, once
//	Release    Released                give one lease back
//	Renew      Renewed                 set what is left of a fixed lease
//	Inspect    Inspected               who holds it, who waits
//	           Lost                    unasked: a lease ended without a Release
//
// Every request carries an ID that its answer echoes; IDs are the requester's own and need only be unique among its open requests.
// The answer goes to the sender of the envelope, so send with Request (or RequestWithCustomSender), not with Send:
// a request without a sender is dropped and reported as a RequestDropped event. Futures cannot be used for Acquire,
// because the lock actor watches the requester, and a watch completes a protoactor future.
// When the requester terminates, its waits end and its leases are released.
//
// The words:
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
