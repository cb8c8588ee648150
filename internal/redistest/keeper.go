package redistest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// sharedBy is something that is started by the first test that needs it, and outlives that test.
type sharedBy[T any] struct {
	once  sync.Once
	value *T
	end   keeper
	err   error
}

// get returns a copy of the value.
func (s *sharedBy[T]) get(tb testing.TB, start func(testing.TB) *T) T {
	tb.Helper()
	s.once.Do(func() {
		defer func() {
			if value := recover(); value != nil {
				s.err = fmt.Errorf("%v", value)
			}
		}()
		s.value = start(&s.end)
	})
	if s.err != nil {
		tb.Fatalf("redistest: %v", s.err)
	}
	return *s.value
}

// keeper is a testing.TB for starting things that must outlive the test that starts them.
type keeper struct {
	testing.TB // nil, and embedded only to implement the interface: only the methods below may be called
	ends       []func()
}

func (*keeper) Helper()                        {}
func (k *keeper) Cleanup(end func())           { k.ends = append(k.ends, end) }
func (*keeper) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

func (k *keeper) close() {
	for _, end := range slices.Backward(k.ends) {
		end()
	}
}
