// Package terminaltest uses the command line in a terminal, with real keys, and takes the pictures of it in doc. It is a module of its own, so
// that the terminal's emulator is no dependency of the library.
package terminaltest
