// Package locktest has the helpers that the tests of promises and faults share. They run a test with every kind of lock on every kind of server,
// close its runtimes when it ends, and wait with a time limit. They fail the test that is passed to them instead of returning an error.
package locktest
