// Package conformance tests the properties that Redisson's own tests assert of its locks, as far as no other test of this project covers them.
// CONFORMANCE.md, at the root, lists each of Redisson's tests with the test of ours that shows the same.
package conformance
