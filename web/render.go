package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/protocol"
)

// renderer renders the parts of one view.
type renderer struct {
	*page
	*snapshot
	view view
	live bool
	now  time.Time
	made []part
}

// open begins a part; items are put into the part that was opened last.
func (r *renderer) open(id string) { r.made = append(r.made, part{ID: id}) }

// put renders an item with a template. If an ID is given, the item begins a new part with this ID.
func (r *renderer) put(id, key, name string, data any) {
	if id != "" {
		r.open(id)
	}
	var html strings.Builder
	if err := r.templates.ExecuteTemplate(&html, name, data); err != nil {
		return // the element stays as it was
	}
	p := &r.made[len(r.made)-1]
	p.Items = append(p.Items, item{Key: key, HTML: html.String()})
}

// state returns the data of the line that says how old the page is, and what is wrong.
func (r *renderer) state() any {
	return struct {
		Key, Error string
		Failed     moment
		Live       bool
		At         moment
		None       bool
	}{"state", r.err, r.moment(r.failed), r.live, r.moment(r.at), r.swept.IsZero()}
}

// moment is an instant, and how long ago it was.
type moment struct {
	time.Time
	Ticks int64 // the instant on the page's clock, in ms
	Ago   string
}

// moment returns the data of an instant. For a live page it leaves out how long ago the instant was, because the page's script computes that.
func (r *renderer) moment(at time.Time) moment {
	m := moment{Time: at, Ticks: r.clock(at)}
	if !r.live && !at.IsZero() {
		m.Ago = span(r.now.Sub(at))
	}
	return m
}

// Clock is the time of day.
func (m moment) Clock() string { return m.Format("15:04:05") }

// Full is the time with its date and zone.
func (m moment) Full() string { return m.Format("2006-01-02 15:04:05 MST") }

// lease is the data of the bar that shows a lease.
type lease struct {
	Never       bool
	Until, Full int64 // in milliseconds; Until is on the page's clock
	Left        int64
	Text        string
}

func (r *renderer) lease(h holding) lease {
	if h.until.IsZero() {
		return lease{Never: true}
	}
	l := lease{Until: r.clock(h.until), Full: h.full.Milliseconds()}
	if !r.live {
		left := max(0, h.until.Sub(r.now))
		l.Left, l.Text = left.Milliseconds(), span(left)
	}
	return l
}

// row is a lock in the list.
type row struct {
	Key, Address string
	Name         []piece
	Kind         protocol.Kind
	Contended    bool
	Holder       *who
	More         int // further holders
	Lease        *lease
	Waiting      int
	Numbers      string // what a semaphore or a latch counts, because it has no lease
}

// who describes a holder, a waiter or a process.
type who struct {
	Name []piece // empty if the process is not announced
	ID   []piece
}

func (r *renderer) list() {
	found := r.matching()
	pages := max(1, (len(found)+rowsPerPage-1)/rowsPerPage)
	number := min(r.view.Number, pages)
	r.put("summary", "summary", "summary", r.summary(found))
	r.open("rows")
	for _, l := range found[(number-1)*rowsPerPage : min(number*rowsPerPage, len(found))] {
		row := r.row(l)
		r.put("", row.Key, "row", row)
	}
	if len(found) == 0 {
		r.put("", "none", "norow", r.nothing())
	}
	r.put("pager", "pager", "pager", pager(r.view, number, pages))
}

func (r *renderer) nothing() string {
	switch {
	case r.swept.IsZero():
		return "Nothing is known yet."
	case r.view.Query != "":
		return "No lock matches this search."
	case r.view.Only != "":
		return "Nobody waits for a lock."
	}
	return "No lock is in use."
}

// matching returns the locks that the viewer searches for.
func (r *renderer) matching() []*lock {
	words := strings.Fields(strings.ToLower(r.view.Query))
	if len(words) == 0 && r.view.Only == "" {
		return r.sorted
	}
	var found []*lock
	for _, l := range r.sorted {
		if r.view.Only != "" && !l.contended(r.now) {
			continue
		}
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(l.text, word) }) {
			found = append(found, l)
		}
	}
	return found
}

func (r *renderer) summary(found []*lock) any {
	contended, waiting := 0, 0
	for _, l := range r.sorted {
		if l.Waiting > 0 {
			contended++
			waiting += l.Waiting
		}
	}
	all, only := r.view, r.view
	all.Only, all.Number, only.Only, only.Number = "", 1, "contended", 1
	return struct {
		Key                              string
		Locks, Contended, Waiting, Found int
		Searched, Cut                    bool
		All, Only                        string
		Chosen                           string
	}{"summary", len(r.sorted), contended, waiting, len(found), r.view.Query != "", r.cut, all.Address(), only.Address(), r.view.Only}
}

func (r *renderer) row(l *lock) row {
	made := row{
		Key: url.QueryEscape(l.Name), Address: view{Page: "lock", Name: l.Name}.Address(), Name: pieces(l.Name), Kind: l.Kind,
		Contended: l.contended(r.now), Waiting: l.Waiting, Numbers: numbers(l.Entry),
	}
	if len(l.holders) > 0 {
		first := l.holders[0]
		made.Holder, made.More = r.who(first.ID, first.process), len(l.holders)-1
		lease := r.lease(first)
		made.Lease = &lease
	}
	return made
}

// numbers returns what a semaphore or a latch counts, as text.
func numbers(e inspect.Entry) string {
	switch e.Kind {
	case protocol.KindPermitSemaphore:
		return fmt.Sprintf("%d of %d free", e.Available, e.Permits)
	case protocol.KindSemaphore:
		return fmt.Sprintf("%d free", e.Available)
	case protocol.KindLatch:
		return fmt.Sprintf("%d to go", e.Count)
	}
	return ""
}

func (r *renderer) who(id, process string) *who {
	w := &who{ID: pieces(id)}
	if process != "" {
		w.Name = pieces(process)
	}
	return w
}

// pager links to the pages around one page of the list.
func pager(v view, number, pages int) any {
	address := func(n int) string {
		if n < 1 || n > pages {
			return ""
		}
		v := v
		v.Number = n
		return v.Address()
	}
	return struct {
		Key            string
		Number, Pages  int
		Earlier, Later string
	}{"pager", number, pages, address(number - 1), address(number + 1)}
}

// holder is a row of the holders of a lock.
type holder struct {
	Key string
	who
	Holds    int
	Lease    lease
	Since    moment
	Begun    bool
	Renewals int
}

func (r *renderer) lock() {
	l := r.locks[r.view.Name]
	if l == nil {
		l = &lock{Entry: inspect.Entry{Name: r.view.Name}}
	}
	r.put("facts", "facts", "facts", struct {
		Key     string
		Known   bool
		Error   string
		Numbers string
		*lock
	}{"facts", !l.at.IsZero() && l.err == "", l.err, numbers(l.Entry), l})
	r.open("holders")
	for _, h := range l.holders[:min(len(l.holders), rowsPerPage)] {
		r.put("", url.QueryEscape(h.ID), "holder", holder{
			Key: url.QueryEscape(h.ID), who: *r.who(h.ID, h.process), Holds: h.Holds, Lease: r.lease(h), Since: r.moment(h.since), Begun: h.begun,
			Renewals: h.renewals,
		})
	}
	r.put("chart", "chart", "chart", r.chart(l))
	r.queue(l)
	r.history(l)
}

// queue shows the waiters of a fair lock.
func (r *renderer) queue(l *lock) {
	names := map[string]string{}
	for _, p := range r.processes {
		names[p.Runtime] = p.Name
	}
	for _, h := range l.holders {
		if runtime := runtimeOf(h.ID); h.process != "" {
			names[runtime] = h.process
		}
	}
	r.open("queue")
	for i, id := range l.Queue[:min(len(l.Queue), rowsPerPage)] {
		r.put("", url.QueryEscape(id), "waiter", struct {
			Key string
			*who
			Place int
		}{url.QueryEscape(id), r.who(id, names[runtimeOf(id)]), i + 1})
	}
}

// runtimeOf returns the runtime in an owner field.
func runtimeOf(id string) string {
	runtime, _, _ := strings.Cut(id, ":")
	return runtime
}

// history shows who has held the lock and when there were waiters, the newest first.
func (r *renderer) history(l *lock) {
	r.put("since", "since", "since", struct {
		Key  string
		Time moment
		None bool
	}{"since", moment{Time: r.since}, len(l.past) == 0})
	r.open("history")
	for i, s := range slices.Backward(l.past) {
		key := fmt.Sprint(r.clock(s.since), " ", r.clock(s.end), " ", s.id)
		if s.most > 0 {
			key += "waits"
		}
		data := struct {
			Key string
			*who
			Since, End moment
			Begun      bool
			For        string
			Renewals   int
			Most       int
		}{url.QueryEscape(key), r.who(s.id, s.process), moment{Time: s.since}, moment{Time: s.end}, s.begun, span(s.end.Sub(s.since)), s.renewals, s.most}
		r.put("", data.Key, "spell", data)
		if len(l.past)-i >= 50 {
			return
		}
	}
}

func (r *renderer) processList() {
	held := map[string]int{}
	for _, l := range r.sorted {
		for _, h := range l.Holders {
			held[runtimeOf(h.ID)]++
		}
	}
	r.open("processes")
	for _, p := range r.processes[:min(len(r.processes), 1000)] {
		r.put("", url.QueryEscape(p.Runtime), "process", struct {
			Key string
			*who
			Version []piece
			Since   moment
			Held    int
			Address string
		}{
			url.QueryEscape(p.Runtime), r.who(p.Runtime, cmp.Or(p.Name, "unnamed")), pieces(p.Version), r.moment(p.Since), held[p.Runtime],
			view{Page: "list", Query: p.Runtime}.Address(),
		})
	}
	if len(r.processes) == 0 {
		r.put("", "none", "noprocess", nil)
	}
}
