// Package terminaltest tests the command line in a terminal with real keys, and takes the pictures in doc. It is a separate module, so that
// the library does not depend on the terminal emulator.
package terminaltest
