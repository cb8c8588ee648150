package web

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inspect"
)

// Options configures Handler. The zero value shows every lock and frees none.
type Options struct {
	// AllowFree lets viewers free locks by force, after a confirmation. The page does not authenticate its viewers, so everyone who
	// can open it can then free locks.
	AllowFree bool

	// Pattern selects the locks that are listed, as in the command KEYS; default "*". It restricts nothing: a viewer who knows the name
	// of another lock can look at it. The rights of the client's user restrict what the page can read.
	Pattern string
}

// Handler returns the page, which looks at Redis through client. The documentation of the package says how to mount it.
func Handler(client redis.UniversalClient, o Options) http.Handler {
	return newPage(fromRedis(client), o)
}

//go:embed files
var files embed.FS

// page is the handler.
type page struct {
	Options
	*looker
	source    source
	templates *template.Template
	protected http.Handler
	streams   chan struct{} // contains one element for each open stream; its capacity is the limit
	opened    time.Time

	writeWithin time.Duration
}

const (
	maxStreams = 1000
	patience   = 5 * time.Second // a page waits this long for the first look, before it says that nothing is known
)

func newPage(from source, o Options) *page {
	p := &page{
		Options:   o,
		looker:    newLooker(from, o.Pattern),
		source:    from,
		templates: template.Must(template.New("").Funcs(functions).ParseFS(files, "files/*.html")),
		streams:   make(chan struct{}, maxStreams),
		opened:    time.Now(),

		writeWithin: writeWithin,
	}
	p.protected = http.NewCrossOriginProtection().Handler(http.HandlerFunc(p.route))
	return p
}

// policy allows the browser to load only the files of this page, and to run no script inside a document.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types holdfast"

// ServeHTTP implements http.Handler.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin") // addresses contain names, so other sites do not get them; no-referrer would also hide our own form's origin
	h.Set("Cache-Control", "no-store")
	p.protected.ServeHTTP(w, r)
}

// route uses only the last element of the path. Every address on the page is relative. So the page need not know its prefix.
func (p *page) route(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "" {
		p.addSlash(w, r)
		return
	}
	_, last, _ := cutLast(r.URL.Path, "/")
	handle, methods := p.serveFile, "GET, HEAD"
	switch last {
	case "", "lock", "processes":
		handle = p.show
	case "events":
		handle, methods = p.stream, "GET"
	case "free":
		if !p.AllowFree {
			http.Error(w, "Freeing locks is not enabled on this page.", http.StatusForbidden)
			return
		}
		handle, methods = p.free, "GET, HEAD, POST"
	}
	if !strings.Contains(methods+",", r.Method+",") {
		w.Header().Set("Allow", methods)
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	handle(w, r)
}

// addSlash redirects from /prefix to /prefix/. It reads RequestURI, because http.StripPrefix has removed the prefix from the path. The redirect is
// relative, because only relative addresses work behind a proxy.
func (p *page) addSlash(w http.ResponseWriter, r *http.Request) {
	asked, query, found := strings.Cut(r.RequestURI, "?")
	if found {
		query = "?" + query
	}
	w.Header().Set("Location", "./"+path.Base(asked)+"/"+query)
	w.WriteHeader(http.StatusFound)
}

// serveFile serves one of the files that pages refer to.
func (p *page) serveFile(w http.ResponseWriter, r *http.Request) {
	_, name, _ := cutLast(r.URL.Path, "/")
	switch name {
	case "page.css", "page.js", "icon.svg":
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, files, "files/"+name)
	default:
		p.fail(w, http.StatusNotFound, "There is no such page.")
	}
}

// document is the data for the layout of every page.
type document struct {
	View    view
	Title   string
	Parts   map[string]part
	Now     int64 // the present time on the page's clock, in ms
	Free    bool
	Message string
	Done    string // what has just been done
	Confirm *confirmation
}

// show shows the list, a lock, or the processes.
func (p *page) show(w http.ResponseWriter, r *http.Request) {
	v := viewOf(r)
	if !v.valid() {
		p.fail(w, http.StatusBadRequest, "A lock has a name of 1 to 512 bytes.")
		return
	}
	s := p.fresh(r.Context(), v)
	if s == nil {
		return // nobody waits for the answer any more
	}
	d := document{View: v, Title: v.title(), Parts: map[string]part{}, Now: p.clock(time.Now()), Free: p.AllowFree}
	for _, part := range p.parts(s, v, false) {
		d.Parts[part.ID] = part
	}
	switch r.URL.Query().Get("done") {
	case "freed":
		d.Done = "The lock was freed, and its waiters were notified. The former holder learns of the loss at its next renewal, or at the end of a lease that is not renewed."
	case "nothing":
		d.Done = "Nobody held the lock any more. Nothing was changed."
	}
	status := http.StatusOK
	if s.swept.IsZero() && s.err != "" {
		status = http.StatusServiceUnavailable
	}
	p.render(w, status, v.Page, d)
}

// clock returns an instant as the milliseconds since the handler was made. page.js computes with such instants only, so a wrong wall clock has no
// effect, neither the server's nor the browser's.
func (p *page) clock(at time.Time) int64 { return at.Sub(p.opened).Milliseconds() }

// fail shows a message instead of a page.
func (p *page) fail(w http.ResponseWriter, status int, message string) {
	p.render(w, status, "message", document{Title: http.StatusText(status), Message: message})
}

func (p *page) render(w http.ResponseWriter, status int, name string, d document) {
	var page bytes.Buffer
	if err := p.templates.ExecuteTemplate(&page, name+".html", d); err != nil {
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // the viewer may have left
}

// fromRedis returns a source that reads Redis with package inspect.
func fromRedis(client redis.UniversalClient) source {
	return source{client: client, list: inspect.List, look: inspect.Look, processes: inspect.Processes, free: inspect.Free, ping: ping}
}

func ping(ctx context.Context, client redis.UniversalClient) error { return client.Ping(ctx).Err() }
