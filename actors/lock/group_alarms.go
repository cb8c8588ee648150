package lock

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
)

// alarms contains the members of a group that have set an alarm. It is a heap with the earliest alarm first, because a group may have very many
// members, and few of their alarms are due. If several alarms are set for the same instant, the alarm of the oldest member comes first. So the order
// of steps does not depend on how the heap arranges equal alarms.
type alarms []*State

// alarmEntry is the alarm of a member.
type alarmEntry struct {
	order uint64 // by arrival of the member
	index int    // counted from 1, or 0 if the member has set no alarm
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

// Push is for package heap.
func (a *alarms) Push(s any) {
	*a = append(*a, s.(*State))
	(*a)[len(*a)-1].ringing.index = len(*a)
}

// Pop is for package heap.
func (a *alarms) Pop() any {
	last := len(*a) - 1
	s := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	s.ringing.index = 0
	return s
}

// set sets the alarm of a member. clock.Never removes it.
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

// next returns the instant of the earliest alarm, or clock.Never if there is none.
func (a *alarms) next() time.Duration {
	if len(*a) == 0 {
		return clock.Never
	}
	return (*a)[0].ringing.due
}

// take removes the earliest alarm if it is due and returns its member, or nil if none is due.
func (a *alarms) take(now time.Duration) *State {
	if a.next() > now {
		return nil
	}
	s := (*a)[0]
	a.set(s, clock.Never)
	return s
}
