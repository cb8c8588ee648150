// Package locktest has helpers for the tests of promises and the tests of faults. The helpers run a test with every kind of lock on every kind of
// server, close the test's runtimes at its end, and limit the time of every wait. If something goes wrong, they fail the test that was passed to them
// instead of returning an error.
package locktest
