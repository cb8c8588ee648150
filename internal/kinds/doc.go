// Package kinds tests each kind of lock by itself, without faults. The files wire_*_test.go test that each kind uses the same keys and messages in
// Redis as Redisson does. These files also name the exceptions. The other files test what each kind promises.
package kinds
