package locktest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Spans are the times during which holders of one lock saw that their leases were valid. All times are readings of one monotonic clock.
type Spans struct {
	mu  sync.Mutex
	all []span
}

type span struct {
	from, to time.Time
	id       string
}

// Hold looks at a lease for d, or until it is no longer valid, and records the time during which it was valid.
func (s *Spans) Hold(lease *holdfast.Lease, d time.Duration) {
	looks := time.NewTicker(500 * time.Microsecond)
	defer looks.Stop()
	var seen span
	for start := time.Now(); ; <-looks.C {
		now := time.Now() // read before lease.Valid is called: if that returns true, the lease was valid at this instant, too
		if !lease.Valid() {
			break
		}
		if seen.id == "" {
			seen = span{from: now, id: lease.ID()}
		}
		if seen.to = now; now.Sub(start) >= d {
			break
		}
	}
	if seen.id != "" {
		s.Add(seen.id, seen.from, seen.to)
	}
}

// Add records a time during which a lease was seen to be valid.
func (s *Spans) Add(id string, from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, span{from: from, to: to, id: id})
}

// AtOnce returns the largest number of leases that were valid at the same instant.
func (s *Spans) AtOnce() (most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, a := range s.all {
		changes = append(changes, change{a.from, 1}, change{a.to, -1})
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) // at the same instant, ends come before beginnings
	})
	n := 0
	for _, c := range changes {
		n += c.by
		most = max(most, n)
	}
	return most
}

// Len returns how many leases were recorded.
func (s *Spans) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Clear forgets all leases.
func (s *Spans) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}

// Overlaps describes the leases that were valid while an earlier one was still valid.
func (s *Spans) Overlaps() (overlaps []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.all, func(a, b span) int { return a.from.Compare(b.from) })
	for i, last := 1, 0; i < len(s.all); i++ {
		if a, b := s.all[last], s.all[i]; a.to.After(b.from) {
			overlaps = append(overlaps, fmt.Sprintf("%s and %s were both valid for %v", a.id, b.id, min(a.to.Sub(b.from), b.to.Sub(b.from))))
		}
		if s.all[i].to.After(s.all[last].to) {
			last = i
		}
	}
	return overlaps
}

// Meets describes the leases of s that were valid at the same time as a lease of the other Spans.
func (s *Spans) Meets(others *Spans) (overlaps []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	others.mu.Lock()
	defer others.mu.Unlock()
	for _, a := range s.all {
		for _, b := range others.all {
			if from, to := later(a.from, b.from), earlier(a.to, b.to); to.After(from) {
				overlaps = append(overlaps, fmt.Sprintf("%s and %s were both valid for %v", a.id, b.id, to.Sub(from)))
			}
		}
	}
	return overlaps
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
