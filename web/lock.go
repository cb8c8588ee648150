package web

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/protocol"
)

const (
	maxPast    = 100 // number of ended spells that are remembered for each lock
	maxSamples = 120
	steady     = 500 * time.Millisecond // how far a deadline may move between two looks without counting as a renewal
	calmAfter  = 10 * time.Second       // how long a lock is listed as contended after its last waiter has gone
)

// lock is an immutable snapshot of what is known about one lock. Each look at the lock makes a new snapshot.
type lock struct {
	inspect.Entry
	at          time.Time
	holders     []holding
	waiting     spell // the period with waiters; it is in progress if most > 0
	contendedAt time.Time
	past        []spell // spells that have ended, the newest last
	samples     []sample
	text        string // the text, in lower case, in which a search looks for words
	listed      bool   // a list has contained the lock, so if a later list does not, the lock is no longer in use
	err         string // why the last look at the lock failed, or "" if it did not
}

// holding is one holder, followed from look to look.
type holding struct {
	inspect.Holder
	spell
	until time.Time     // when its lease expires; zero if it never does
	full  time.Duration // the length of the bar that shows the rest of the lease
}

// spell is a period in which one holder held the lock, or in which there were waiters.
type spell struct {
	id, process string
	since, end  time.Time
	begun       bool // a look has seen the beginning of the spell
	renewals    int
	most        int // largest number of waiters, for a period with waiters
}

// sample is the lease of the first holder at one instant.
type sample struct {
	at, until time.Time
	full      time.Duration
}

func isForeign(err error) bool { return errors.Is(err, protocol.ErrForeignKey) }

// follow returns what is known about a lock after one more look. If fresh is true, a lock that was not known before counts as just taken. Otherwise
// it may have been taken long ago.
func follow(before *lock, e inspect.Entry, now time.Time, fresh bool) *lock {
	if before == nil {
		before = &lock{}
	} else {
		fresh = true
	}
	l := &lock{
		Entry: e, at: now, waiting: before.waiting, contendedAt: before.contendedAt, past: before.past, samples: before.samples, listed: before.listed,
	}
	l.followHolders(before, fresh)
	l.followWaiting(fresh)
	if len(l.past) > maxPast {
		l.past = slices.Clone(l.past[len(l.past)-maxPast:])
	}
	l.text = before.text
	if before.Kind != e.Kind || !slices.EqualFunc(before.Holders, e.Holders, func(a, b inspect.Holder) bool { return a.ID == b.ID && a.Process.Name == b.Process.Name }) {
		l.text = searched(e)
	}
	return l
}

func (l *lock) followHolders(before *lock, fresh bool) {
	known := make(map[string]holding, len(before.holders))
	for _, h := range before.holders {
		known[h.ID] = h
	}
	for _, holder := range l.Holders {
		h, again := known[holder.ID]
		delete(known, holder.ID)
		if !again {
			h = holding{spell: spell{id: holder.ID, since: l.at, begun: fresh}}
		}
		h.Holder, h.process = holder, cmp.Or(holder.Process.Name, h.process)
		h.renew(l.at, again)
		l.holders = append(l.holders, h)
	}
	for _, h := range before.holders {
		if _, gone := known[h.ID]; gone {
			h.end = l.at
			l.past = append(l.past, h.spell)
		}
	}
}

// renew notes when the lease expires. It counts a renewal if this expiry is later than the expiry noted before, and the difference is more than
// the duration `steady`.
func (h *holding) renew(now time.Time, again bool) {
	if h.TTL < 0 {
		h.until = time.Time{}
		return
	}
	until := now.Add(h.TTL)
	switch moved := until.Sub(h.until); {
	case !again || h.until.IsZero():
		h.until = until
	case moved.Abs() > steady:
		if moved > 0 {
			h.renewals++
		}
		h.until = until
	}
	h.full = max(h.full, usual(h.TTL))
}

// failed returns the lock with the error of a failed look at it. Everything else stays as it was.
func (l *lock) failed(now time.Time, err error) *lock {
	next := *l
	next.at, next.err = now, err.Error()
	return &next
}

// unlisted returns the lock, marked as not listed. It is for a lock that the last list may have left out. Everything else stays as it was.
func (l *lock) unlisted() *lock {
	next := *l
	next.listed = false
	return &next
}

// calmed returns the lock without waiters, and unchanged otherwise. It is called if nothing has changed but that the last waiter has gone.
func (l *lock) calmed(now time.Time) *lock {
	next := *l
	next.Waiting, next.waiting.end = 0, now
	next.past, next.waiting = append(next.past, next.waiting), spell{}
	return &next
}

func (l *lock) followWaiting(fresh bool) {
	switch {
	case l.Waiting > 0:
		if l.waiting.most == 0 {
			l.waiting = spell{since: l.at, begun: fresh}
		}
		l.waiting.most = max(l.waiting.most, l.Waiting)
		l.contendedAt = l.at
	case l.waiting.most > 0:
		l.waiting.end = l.at
		l.past = append(l.past, l.waiting)
		l.waiting = spell{}
	}
}

// sampled returns the lock with one more sample of its lease.
func (l *lock) sampled() *lock {
	next := *l
	s := sample{at: l.at}
	if len(l.holders) > 0 {
		s.until, s.full = l.holders[0].until, l.holders[0].full
	}
	if n := len(l.samples); n > 0 && l.samples[n-1].at.Equal(s.at) {
		return l
	}
	next.samples = append(next.samples, s)
	if n := len(next.samples); n > maxSamples {
		next.samples = slices.Clone(next.samples[n-maxSamples:])
	}
	return &next
}

// toList reports whether the list contains the lock.
func (l *lock) toList() bool { return l.listed && l.Kind != "" }

// contended reports whether the lock is listed as contended.
func (l *lock) contended(now time.Time) bool { return now.Sub(l.contendedAt) < calmAfter }

// byContention sorts the locks with the most waiters to the top. It does not compare the present numbers of waiters, but the largest number in each
// lock's present period with waiters. So the locks seldom change places.
func byContention(now time.Time) func(a, b *lock) int {
	rank := func(l *lock) int {
		if !l.contended(now) {
			return 0
		}
		return 1 + l.waiting.most
	}
	return func(a, b *lock) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a.Name, b.Name))
	}
}

// searched returns the text in which a search looks for its words.
func searched(e inspect.Entry) string {
	text := []string{e.Name, string(e.Kind)}
	for _, h := range e.Holders[:min(len(e.Holders), 20)] {
		text = append(text, h.ID, h.Process.Name)
	}
	return strings.ToLower(strings.Join(text, "\n"))
}

// usual guesses the full length of a lease from the time d that is left: it returns the shortest common length that is not less than d.
func usual(d time.Duration) time.Duration {
	for _, s := range []time.Duration{1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400} {
		if d <= s*time.Second {
			return s * time.Second
		}
	}
	return d
}
