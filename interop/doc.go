// Package interop is the tests in which this runtime shares locks with the real Redisson: see README.md beside it.
package interop
