// Package locktest has what the tests of promises and faults share: every kind of lock on every kind of server, runtimes that are closed
// when the test ends, and waiting with a time limit. Its functions fail the test that they are given, and return no errors.
package locktest
