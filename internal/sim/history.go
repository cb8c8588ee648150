package sim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"
)

// history records what happened. Entries of one actor at one instant keep their order. The order of two actors at the same instant is
// unknown, so their entries are sorted by the actors' names.
type history struct {
	start time.Time

	mu     sync.Mutex
	events []happening
}

type happening struct {
	at        time.Duration
	who, what string
}

func (h *history) add(who, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, happening{time.Since(h.start), who, what})
}

func (h *history) sorted() []happening {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := slices.Clone(h.events)
	slices.SortStableFunc(events, func(a, b happening) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.who, b.who)) })
	return events
}

func (h *history) String() string {
	var b strings.Builder
	for _, e := range h.sorted() {
		fmt.Fprintf(&b, "%14v  %-10s %s\n", e.at, e.who, e.what)
	}
	return b.String()
}

func (h *history) hash(more uint64) uint64 {
	sum := fnv.New64a()
	_, _ = fmt.Fprintln(sum, more)
	for _, e := range h.sorted() {
		_, _ = fmt.Fprintln(sum, int64(e.at), e.who, e.what)
	}
	return sum.Sum64()
}

func (h *history) count(who string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.who == who {
			n++
		}
	}
	return n
}
