// Package soak has only tests: everything at once, for as long as one likes. Runtimes that come and go use all kinds of locks behind
// links that break, on a server that crashes, stalls and forgets its scripts. Once a minute all of it comes to rest, and is looked at:
// who was valid when, what is left in Redis, what the process has grown to.
//
//	go test ./internal/soak -v -timeout 0 -run TestSoak -soak.for 30m -soak.report internal/soak/REPORT.md
package soak
