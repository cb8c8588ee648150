// Package kinds tests each kind of lock by itself, without faults: what the kind promises and, in the files wire_*_test.go, that its keys and
// messages in Redis are those of Redisson. The tests name the exceptions.
package kinds
