package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	streamFor   = 5 * time.Minute
	writeWithin = 10 * time.Second // a viewer who reads nothing is cut off after this time
	heartbeat   = 15 * time.Second
)

// update is what one event says about a part of the page.
type update struct {
	ID    string            `json:"id"`
	Order []string          `json:"order"`           // keys of all items of the part; null: unchanged
	Items map[string]string `json:"items,omitempty"` // those that have changed
}

// event is the data of one server-sent event.
type event struct {
	Now   int64    `json:"now"`
	Parts []update `json:"parts"`
}

// stream sends a view, and then its changes, until the viewer leaves or streamFor has passed.
func (p *page) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many viewers", http.StatusServiceUnavailable)
		return
	}
	v := viewOf(r)
	if !v.valid() {
		http.Error(w, "no such view", http.StatusBadRequest)
		return
	}
	defer p.watch(v)()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies, which would hold events back
	s, sent := p.fresh(r.Context(), v), map[string]part{}
	over := time.NewTimer(streamFor)
	defer over.Stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for silent := false; s != nil; {
		changed := changes(p.parts(s, v, true), sent)
		if (len(changed) > 0 || silent) && !p.send(w, changed) {
			return
		}
		silent = false
		select {
		case <-s.next:
			s = p.latest()
		case <-beat.C:
			silent = true
		case <-over.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// changes returns what has changed since each part was last sent, and notes the parts as sent.
func changes(parts []part, sent map[string]part) []update {
	changed := []update{}
	for _, p := range parts {
		before, known := sent[p.ID]
		u := update{ID: p.ID, Items: map[string]string{}}
		had := make(map[string]string, len(before.Items))
		for _, i := range before.Items {
			had[i.Key] = i.HTML
		}
		order := make([]string, len(p.Items))
		for n, i := range p.Items {
			order[n] = i.Key
			if html, again := had[i.Key]; !again || html != i.HTML {
				u.Items[i.Key] = i.HTML
			}
		}
		if !known || !slices.EqualFunc(p.Items, before.Items, func(a, b item) bool { return a.Key == b.Key }) {
			u.Order = order
		}
		sent[p.ID] = p
		if !known || u.Order != nil || len(u.Items) > 0 {
			changed = append(changed, u)
		}
	}
	return changed
}

// send sends an event. It returns false if the viewer does not take it.
func (p *page) send(w http.ResponseWriter, parts []update) bool {
	data, err := json.Marshal(event{Now: p.clock(time.Now()), Parts: parts})
	if err != nil {
		return false
	}
	to := http.NewResponseController(w)
	_ = to.SetWriteDeadline(time.Now().Add(p.writeWithin)) // a writer that does not support deadlines returns an error, which is harmless
	if _, err = fmt.Fprintf(w, "data: %s\n\n", data); err != nil || to.Flush() != nil {
		return false
	}
	_ = to.SetWriteDeadline(time.Time{}) // in HTTP/2, a stream would end if the deadline passed between two events
	return true
}
