// Package locktest is what the tests of promises and of faults are written with: every kind of lock on every kind of server,
// runtimes that are closed when the test ends, and waiting that is bounded. It fails the test it is given; nothing returns errors.
package locktest
