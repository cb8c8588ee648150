// Package interop contains the tests in which this runtime shares locks with the real Redisson. README.md in the same folder
// describes them.
package interop
