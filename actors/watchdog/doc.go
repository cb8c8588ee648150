// Package watchdog renews leases before they expire.
//
// The shell of a lock's actor, which is the code around the actor's state machine, calls Keep when the machine has a new grant. When a
// grant has ended, the shell calls Drop before it sends any other command for the grant. The watchdog sends renewals to a gateway of
// its own, which answers each with an rpc.Result. When a renewal succeeds, the watchdog itself moves the deadline of the grant (package
// lease). When the lock's actor has to do something, the watchdog sends it a lease.Due, lease.Gone or lease.CountRequesters.
//
// After an outage, the gateways send the message gateway.Recovered to the watchdog. The gateways for locks then pause until the watchdog
// resumes them, but not for longer than a window (rpc.Window).
package watchdog
