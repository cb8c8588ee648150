package lock

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// alarms are the members of a group that want to be told of an instant, the earliest first: a group may have very many, and few are due.
type alarms []*State

// alarmPlace is where a member stands among the alarms.
type alarmPlace struct {
	order uint64 // of arrival
	index int    // from 1; 0: it wants none
	due   time.Duration
}

func (a *alarms) Len() int { return len(*a) }

func (a *alarms) Less(i, j int) bool {
	one, other := (*a)[i].ringing, (*a)[j].ringing
	return cmp.Or(cmp.Compare(one.due, other.due), cmp.Compare(one.order, other.order)) < 0
}

func (a *alarms) Swap(i, j int) {
	all := *a
	all[i], all[j] = all[j], all[i]
	all[i].ringing.index, all[j].ringing.index = i+1, j+1
}

// Push and Pop are for the heap.
func (a *alarms) Push(s any) {
	*a = append(*a, s.(*State))
	(*a)[len(*a)-1].ringing.index = len(*a)
}

// Pop takes the last one away.
func (a *alarms) Pop() any {
	last := len(*a) - 1
	s := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	s.ringing.index = 0
	return s
}

// set notes when a member wants its alarm; never: it wants none.
func (a *alarms) set(s *State, at time.Duration) {
	there := s.ringing.index > 0
	s.ringing.due = at
	switch {
	case there && at == clock.Never:
		heap.Remove(a, s.ringing.index-1)
	case there:
		heap.Fix(a, s.ringing.index-1)
	case at != clock.Never:
		heap.Push(a, s)
	}
}

// next is the instant of the earliest.
func (a *alarms) next() time.Duration {
	if len(*a) == 0 {
		return clock.Never
	}
	return (*a)[0].ringing.due
}

// take takes the earliest away, if it is due; nil if none is.
func (a *alarms) take(now time.Duration) *State {
	if a.next() > now {
		return nil
	}
	s := (*a)[0]
	a.set(s, clock.Never)
	return s
}
