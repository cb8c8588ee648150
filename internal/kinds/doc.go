// Package kinds tests each kind of lock by itself, without faults. The files wire_*_test.go test that a kind has the same keys and messages in Redis
// as Redisson, and name the exceptions. The other files test what the kind promises.
package kinds
