package wait

import (
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/protocol"
)

// Queue is a FIFO of waiting requests. Any request can leave it in constant time.
type Queue struct {
	head, tail *Request
	fresh      *Request // the first request that has not been reported for waiting long, or nil if all have been
	reported   int      // number of requests before fresh
	Len        int
	Owners     map[protocol.Owner]int // number of waiting requests of each explicit owner
	Total      *int                   // number of requests in all queues that share this counter, or nil if this queue shares no counter
}

// Front returns the request that has waited longest, or nil if the queue is empty.
func (q *Queue) Front() *Request { return q.head }

// Push appends r.
func (q *Queue) Push(r *Request) {
	r.Queue, r.prev, r.Next, r.passed = q, q.tail, nil, false
	if q.tail == nil {
		q.head = r
	} else {
		q.tail.Next = r
	}
	q.tail = r
	if q.fresh == nil {
		q.fresh = r
	}
	q.count(1)
	if !r.Owner.IsZero() {
		if q.Owners == nil {
			q.Owners = map[protocol.Owner]int{}
		}
		q.Owners[r.Owner]++
	}
}

func (q *Queue) count(n int) {
	q.Len += n
	if q.Total != nil {
		*q.Total += n
	}
}

// Remove removes r. It returns false if r is not in this queue.
func (q *Queue) Remove(r *Request) bool {
	if r.Queue != q {
		return false
	}
	switch {
	case q.fresh == r:
		q.fresh = r.Next
	case r.passed:
		q.reported--
	}
	if r.prev == nil {
		q.head = r.Next
	} else {
		r.prev.Next = r.Next
	}
	if r.Next == nil {
		q.tail = r.prev
	} else {
		r.Next.prev = r.prev
	}
	r.Queue, r.prev, r.Next = nil, nil, nil
	q.count(-1)
	if !r.Owner.IsZero() {
		if q.Owners[r.Owner]--; q.Owners[r.Owner] == 0 {
			delete(q.Owners, r.Owner)
		}
	}
	return true
}

// NextSlow returns a request that has waited for at least limit, and the number of requests before it in the queue. It returns each request only
// once. If there is no such request, or if limit is 0, r is nil.
func (q *Queue) NextSlow(now, limit time.Duration) (r *Request, ahead int) {
	if q.SlowAt(limit) > now {
		return nil, 0
	}
	r, ahead = q.fresh, q.reported
	r.Slow = true
	q.pass()
	return r, ahead
}

// pass moves fresh to the next request.
func (q *Queue) pass() {
	q.fresh.passed = true
	q.fresh, q.reported = q.fresh.Next, q.reported+1
}

// SlowAt returns the earliest instant at which NextSlow returns a request, or clock.Never if there is no such instant. SlowAt considers only the
// requests that are in the queue now.
func (q *Queue) SlowAt(limit time.Duration) time.Duration {
	for q.fresh != nil && q.fresh.Slow { // the request was reported in another queue, before it came to this one
		q.pass()
	}
	if limit == 0 || q.fresh == nil {
		return clock.Never
	}
	return q.fresh.Came + min(limit, clock.Never-q.fresh.Came) // a limit of centuries means never
}
