package cli

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/inspect"
)

// topView is the data that top shows, and the user's position in it. It does no I/O.
type topView struct {
	topOptions
	server string

	last     look   // the last successful look at all locks
	err      string // why the last look failed
	failing  time.Time
	paused   bool
	help     bool
	order    int // index into topOrders
	filter   string
	typing   bool // the user is typing the filter
	asking   bool // the user is asked whether to free a lock
	note     string
	asked    inspect.Entry // the lock to be freed, as the user has seen it
	selected string        // name of the selected lock
	row      int           // row in which the selected lock was last seen
	first    int           // row at the top of the list
	page     int           // rows of the list

	open    bool // the page of the selected lock is shown
	one     inspect.Entry
	oneAt   time.Time // when v.one was read
	since   time.Time // when the page was opened
	renewed time.Time // when a renewal was last seen
	line    int       // index of the first visible line of the page
	long    bool      // the page is longer than the screen
}

func newTopView(o topOptions, server string) *topView {
	return &topView{topOptions: o, server: server, page: 1}
}

// topAction is what a key asks for.
type topAction int

const (
	topNothing topAction = iota
	topQuit
	topLook // now
	topFree // the lock that the user was asked about
)

// topOrders are the orders of the list.
var topOrders = []struct {
	name    string
	compare func(x, y inspect.Entry) int
}{
	{"waiting", byContention},
	{"TTL", func(x, y inspect.Entry) int {
		return cmp.Or(cmp.Compare(ttlOf(x), ttlOf(y)), cmp.Compare(x.Name, y.Name))
	}},
	{"name", func(x, y inspect.Entry) int { return cmp.Compare(x.Name, y.Name) }},
}

// wants returns the name of the lock that the next look must read, or "" if the next look must read all locks.
func (v *topView) wants() string {
	if v.open {
		return v.selected
	}
	return ""
}

// see updates the view with the result of a look.
func (v *topView) see(l look) {
	if l.err != nil {
		v.err = text.Line(strings.TrimPrefix(l.err.Error(), "holdfast: "))
		if v.failing.IsZero() {
			v.failing = time.Now()
		}
		return
	}
	v.err, v.failing = "", time.Time{}
	switch {
	case l.name == "":
		v.last = l
	case v.open && l.name == v.selected:
		if renewedBetween(v.one, l.locks[0], l.at.Sub(v.oneAt)) {
			v.renewed = l.at
		}
		v.one, v.oneAt = l.locks[0], l.at
	}
}

// renewedBetween compares two looks at a lock. It reports whether a holder's time to live fell by less than the time between the looks. That means
// that the holder has renewed the lease, or has acquired the lock again with the same ID. It ignores small differences, because a look itself takes a
// moment.
func renewedBetween(before, now inspect.Entry, passed time.Duration) bool {
	const moment = 250 * time.Millisecond
	ttls := map[string]time.Duration{}
	for _, h := range before.Holders {
		ttls[h.ID] = h.TTL
	}
	return slices.ContainsFunc(now.Holders, func(h inspect.Holder) bool {
		ttl, same := ttls[h.ID]
		return same && ttl >= 0 && h.TTL > ttl-passed+moment
	})
}

// rows returns the locks that match the filter, in the chosen order.
func (v *topView) rows() []inspect.Entry {
	var rows []inspect.Entry
	wanted := strings.ToLower(v.filter)
	for _, e := range v.last.locks {
		if wanted == "" || strings.Contains(strings.ToLower(strings.Join(v.searched(e), "\n")), wanted) {
			rows = append(rows, e)
		}
	}
	slices.SortStableFunc(rows, topOrders[v.order].compare)
	return rows
}

// searched returns the texts of a lock in which the filter searches.
func (v *topView) searched(e inspect.Entry) []string {
	texts := []string{e.Name, string(e.Kind)}
	for _, h := range e.Holders {
		texts = append(texts, h.ID, h.Process.Name)
	}
	return texts
}

// ask asks the user whether to free the selected lock. The answer is about this lock and its present holders, even if the list has changed when the
// user answers.
func (v *topView) ask() {
	v.asked = v.one
	if !v.open {
		rows := v.rows()
		i := v.at(rows)
		if i < 0 {
			return
		}
		v.asked = rows[i]
	}
	v.asking = true
}

// at returns the row of the selected lock, or -1 if it is not in the list.
func (v *topView) at(rows []inspect.Entry) int {
	return slices.IndexFunc(rows, func(e inspect.Entry) bool { return e.Name == v.selected })
}

// move selects another row.
func (v *topView) move(by int) {
	rows := v.rows()
	if len(rows) == 0 {
		return
	}
	v.selected = rows[min(max(v.at(rows)+by, 0), len(rows)-1)].Name
}
