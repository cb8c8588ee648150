// Package conformance has what Redisson's own tests assert of its locks and no other test of ours shows. CONFORMANCE.md, at the root,
// lists every test of Redisson's with the test of ours that shows the same.
package conformance
