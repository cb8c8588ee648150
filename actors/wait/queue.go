package wait

import "github.com/holdfast-go/holdfast/protocol"

// Queue is a FIFO of waiting acquires that any of them can leave in constant time.
type Queue struct {
	head, tail *Request
	Len        int
	Owners     map[protocol.Owner]int // how many wait under each explicit owner
	Crowd      *int                   // how many wait in this queue and in others that count together; nil: it counts alone
}

// Front is the request that has waited longest; nil: the queue is empty.
func (q *Queue) Front() *Request { return q.head }

// Push appends r.
func (q *Queue) Push(r *Request) {
	r.Queue, r.prev, r.Next = q, q.tail, nil
	if q.tail == nil {
		q.head = r
	} else {
		q.tail.Next = r
	}
	q.tail = r
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
	if q.Crowd != nil {
		*q.Crowd += n
	}
}

// Remove removes r; false: r is not in this queue.
func (q *Queue) Remove(r *Request) bool {
	if r.Queue != q {
		return false
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
