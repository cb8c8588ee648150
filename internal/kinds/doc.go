// Package kinds tests each kind of lock by itself, without faults: what the kind promises and, in the files wire_*_test.go, that it does in Redis
// exactly what Redisson does.
package kinds
