package sim

import (
	"hash/fnv"
	"os"
	"regexp"
	"sync"
	"time"
)

// lane is one direction of a wire: parcels in order, each with its arrival time. It has one reader.
type lane struct {
	changed chan struct{}

	mu      sync.Mutex
	parcels []parcel
	number  uint64 // parcels so far
	sum     dice   // checksum of the parcels and their times
	newest  time.Time
	err     error // the error that the reader gets after the last parcel
}

type parcel struct {
	at   time.Time
	what []byte
}

// mark matches the mark at the end of a pipeline. In a request, the mark is a PING with the number of the pipeline. In the reply, the mark is that
// number. If two pipelines are built at the same instant, nobody knows which one gets the lower number. So checksums leave marks out.
var mark = regexp.MustCompile(`(^|ping\r\n)\$\d\r\n\d+\r\n$`)

// content returns a checksum of a message.
func content(what []byte) uint64 {
	if at := mark.FindIndex(what); at != nil {
		what = what[:at[0]]
	}
	sum := fnv.New64a()
	_, _ = sum.Write(what)
	return sum.Sum64()
}

func newLane() *lane { return &lane{changed: make(chan struct{}, 1)} }

func (l *lane) poke() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *lane) last() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

func (l *lane) count() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number
}

func (l *lane) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

func (l *lane) put(what []byte, at time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.number++
	l.sum = l.sum.of(uint64(at.UnixNano()), content(what))
	l.newest = at
	l.parcels = append(l.parcels, parcel{at, what})
	l.poke()
	return nil
}

func (l *lane) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.poke()
}

func (l *lane) drop(err error) {
	l.mu.Lock()
	l.parcels = nil
	l.mu.Unlock()
	l.end(err)
}

// next waits until the next parcel arrives, and returns it.
func (l *lane) next(deadline time.Time) ([]byte, error) {
	for {
		l.mu.Lock()
		if len(l.parcels) == 0 && l.err != nil {
			defer l.mu.Unlock()
			return nil, l.err
		}
		var due time.Time
		if len(l.parcels) > 0 {
			if due = l.parcels[0].at; !due.After(time.Now()) {
				defer l.mu.Unlock()
				what := l.parcels[0].what
				l.parcels = l.parcels[1:]
				return what, nil
			}
		}
		l.mu.Unlock()
		if !l.wait(due, deadline) {
			return nil, os.ErrDeadlineExceeded
		}
	}
}

// wait returns true when there may be something to do, and false at the deadline.
func (l *lane) wait(due, deadline time.Time) bool {
	until := due
	if !deadline.IsZero() && (due.IsZero() || deadline.Before(due)) {
		until = deadline
	}
	if until.IsZero() {
		<-l.changed
		return true
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-l.changed:
		return true
	case <-timer.C:
		return until != deadline
	}
}

func (l *lane) read(into []byte, deadline time.Time) (int, error) {
	what, err := l.next(deadline)
	if err != nil {
		return 0, err
	}
	n := copy(into, what)
	if n < len(what) {
		l.mu.Lock()
		l.parcels = append([]parcel{{time.Now(), what[n:]}}, l.parcels...)
		l.mu.Unlock()
	}
	return n, nil
}
