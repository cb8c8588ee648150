package locktest

import "sync/atomic"

// Most keeps the largest of the numbers that goroutines note. It begins with 0.
type Most struct{ n atomic.Int64 }

// Note keeps n if no larger number was noted.
func (m *Most) Note(n int64) {
	for seen := m.n.Load(); n > seen && !m.n.CompareAndSwap(seen, n); seen = m.n.Load() {
	}
}

// Load returns the largest number that was noted.
func (m *Most) Load() int64 { return m.n.Load() }
