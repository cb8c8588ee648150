// Package kinds tests single kinds of locks, without faults: what each kind promises and, in the files wire_*_test.go, that it does in Redis
// exactly what Redisson does.
package kinds
