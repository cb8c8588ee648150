// Package locktest is shared by the tests of promises and faults: every kind of lock on every kind of server, runtimes that are closed when the
// test ends, and waiting with a time limit. Its functions fail the test that is passed to them, and return no errors.
package locktest
