package lease

import (
	"unsafe"
	"weak"
)

// signal is a channel that is closed once. The reference to the channel can be made weak: then the collector takes the channel if nobody else refers
// to it. Otherwise the channel is closed as before.
type signal struct {
	strong chan struct{}
	weak   weak.Pointer[byte]
}

// make makes the channel.
func (s *signal) make() chan struct{} {
	s.strong = make(chan struct{})
	return s.strong
}

// channel returns the channel; nil: there is none, or the collector has taken it.
func (s *signal) channel() chan struct{} {
	if s.strong != nil {
		return s.strong
	}
	p := s.weak.Value()
	return *(*chan struct{})(unsafe.Pointer(&p)) // a channel is a pointer
}

// weaken makes the reference weak; false: there is no channel, or the collector has taken it.
func (s *signal) weaken() bool {
	if s.strong != nil {
		s.weak, s.strong = weak.Make(*(**byte)(unsafe.Pointer(&s.strong))), nil
		return true
	}
	return s.weak.Value() != nil
}
