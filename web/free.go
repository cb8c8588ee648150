package web

import (
	"errors"
	"net/http"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/protocol"
)

const maxForm = 64 << 10

// confirmation is the data of the page that asks whether to free a lock.
type confirmation struct {
	Name    string
	Address string // the URL to which the form is posted. It contains the name, because a field of the form would not keep every byte of the name
	inspect.Entry
	Holders []*who
	Seen    []string // the IDs of the holders
	More    int
	Changed bool // the lock has other holders than the viewer was shown
}

// free asks for a confirmation, and frees the lock once the viewer has confirmed. The form of the confirmation names the holders that the viewer was
// shown. A program may post a form that has only the name of the lock. That frees the lock no matter who holds it.
func (p *page) free(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		p.fail(w, http.StatusBadRequest, "The form cannot be read.")
		return
	}
	seen := r.PostForm["holder"]
	if r.Method == http.MethodPost && len(seen) == 0 && !r.PostForm.Has("name") {
		p.fail(w, http.StatusBadRequest, "The form does not name the holders. Open the page of the lock, and free it from there.")
		return
	}
	name := r.Form.Get("name") // from the posted form, or else from the URL's query
	entry, err := p.source.look(r.Context(), p.client, name)
	if err != nil {
		p.refuse(w, err)
		return
	}
	if r.Method != http.MethodPost || len(seen) > 0 && !sameHolders(seen, entry) {
		p.confirm(w, entry, r.Method == http.MethodPost)
		return
	}
	freed, err := p.source.free(r.Context(), p.client, name)
	if err != nil {
		p.refuse(w, err)
		return
	}
	done := "&done=nothing"
	if freed {
		done = "&done=freed"
	}
	w.Header().Set("Location", "lock"+view{Page: "lock", Name: name}.Address()+done)
	w.WriteHeader(http.StatusSeeOther)
}

// sameHolders reports whether the holders that the viewer was shown still hold the lock.
func sameHolders(seen []string, e inspect.Entry) bool {
	if len(seen) != min(len(e.Holders), rowsPerPage) {
		return false
	}
	for i, id := range seen {
		if e.Holders[i].ID != id {
			return false
		}
	}
	return true
}

func (p *page) confirm(w http.ResponseWriter, e inspect.Entry, changed bool) {
	c := &confirmation{Name: e.Name, Address: "free" + view{Page: "lock", Name: e.Name}.Address(), Entry: e, Changed: changed}
	r := renderer{page: p}
	for _, h := range e.Holders[:min(len(e.Holders), rowsPerPage)] {
		c.Holders = append(c.Holders, r.who(h.ID, h.Process.Name))
		c.Seen = append(c.Seen, h.ID)
	}
	c.More = len(e.Holders) - len(c.Holders)
	status := http.StatusOK
	if changed {
		status = http.StatusConflict
	}
	p.render(w, status, "free", document{Title: "Free " + plain(e.Name), Confirm: c, View: view{Page: "lock", Name: e.Name}})
}

// refuse shows why a lock cannot be freed.
func (p *page) refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, protocol.ErrInvalid) || isForeign(err) {
		status = http.StatusBadRequest
	}
	p.fail(w, status, err.Error())
}
