package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

const rowsPerPage = 100

// view is what a viewer looks at.
type view struct {
	Page   string // the template: "list", "lock" or "processes"
	Name   string // name of the lock
	Query  string // a search
	Only   string // "contended", or ""
	Number int    // number of the page of the list, from 1
}

// viewOf returns the view that a request asks for, as a page or as a stream.
func viewOf(r *http.Request) view {
	asked := r.URL.Query()
	_, last, _ := cutLast(r.URL.Path, "/")
	if last == "events" {
		last = asked.Get("view")
	}
	switch last {
	case "lock":
		return view{Page: "lock", Name: asked.Get("name")}
	case "processes":
		return view{Page: "processes"}
	}
	v := view{Page: "list", Query: strings.TrimSpace(asked.Get("q")), Number: 1}
	if len(v.Query) > 512 {
		v.Query = v.Query[:512]
	}
	if asked.Get("only") == "contended" {
		v.Only = "contended"
	}
	if n, err := strconv.Atoi(asked.Get("page")); err == nil && n > 1 {
		v.Number = min(n, 1+maxLocks/rowsPerPage)
	}
	return v
}

// valid reports whether Name is a possible name of a lock. Only the view of a lock needs one.
func (v view) valid() bool {
	return v.Page != "lock" || v.Name != "" && len(v.Name) <= protocol.MaxName
}

// subject returns the view without the fields that only affect how it is shown.
func (v view) subject() view { return view{Page: v.Page, Name: v.Name} }

func (v view) title() string {
	switch v.Page {
	case "lock":
		return plain(v.Name)
	case "processes":
		return "Processes"
	}
	return "Locks"
}

// Address returns the URL query that shows this view.
func (v view) Address() string {
	q := url.Values{}
	if v.Page == "lock" {
		q.Set("name", v.Name)
	}
	if v.Query != "" {
		q.Set("q", v.Query)
	}
	if v.Only != "" {
		q.Set("only", v.Only)
	}
	if v.Number > 1 {
		q.Set("page", strconv.Itoa(v.Number))
	}
	return "?" + q.Encode()
}

// Events returns the address of the stream of a view.
func (v view) Events() string {
	return "events" + strings.TrimSuffix(v.Address()+"&", "?&") + viewParameter(v)
}

func viewParameter(v view) string {
	if v.Address() == "?" {
		return "?view=" + v.Page
	}
	return "view=" + v.Page
}

// part is one of the parts of a page that change. Its items replace the children of the element with this ID.
type part struct {
	ID    string
	Items []item
}

// item is an element with the attribute data-key.
type item struct {
	Key  string
	HTML string
}

// parts renders the parts of a view from a snapshot. If live is true, the parts are for streams, and all streams of the view share them. Such parts
// leave out how long ago something was, because the page's script computes that.
func (p *page) parts(s *snapshot, v view, live bool) []part {
	if !live {
		return p.renderParts(s, v, false)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if parts, rendered := s.parts[v]; rendered {
		return parts
	}
	if s.parts == nil {
		s.parts = map[view][]part{}
	}
	s.parts[v] = p.renderParts(s, v, true)
	return s.parts[v]
}

func (p *page) renderParts(s *snapshot, v view, live bool) []part {
	r := renderer{page: p, snapshot: s, view: v, live: live, now: time.Now()}
	r.put("state", "state", "state", r.state())
	switch v.Page {
	case "lock":
		r.lock()
	case "processes":
		r.processList()
	default:
		r.list()
	}
	return r.made
}

func cutLast(s, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):], true
	}
	return "", s, false
}
