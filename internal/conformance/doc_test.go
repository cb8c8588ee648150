// Package conformance tests what Redisson's own tests assert about its locks and no other test of this project covers. CONFORMANCE.md, at the
// root, lists each of Redisson's tests with the test of ours that shows the same.
package conformance
