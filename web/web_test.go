package web

import (
	"bufio"
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/protocol"
)

func get(h http.Handler, address string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, address, nil))
	return w
}

var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onclick='alert(1)`, `</tr></table><h1>`, `{{.}}`, `javascript:alert(1)`,
	`a+b c&d;e=f#g?h/../i%2F%`, "\x00\r\n\t\x1b[31m", "\u202e\u2066\u05d0\u0627", " two  spaces ", strings.Repeat("x", 512), "\xff\xfe\xc3(",
	"cut \xe2\x82", `\x00`,
}

var (
	tag      = regexp.MustCompile(`<[^<>]*>`)
	value    = regexp.MustCompile(`="[^"<>]*"`)
	knownTag = regexp.MustCompile(`^<(!doctype html|/?(a|bdi|body|button|dd|div|dl|dt|figure|form|h1|h2|head|header|html|input|kbd|li|link|main|meta|nav|ol|p|` +
		`path|progress|rect|script|section|span|strong|svg|table|tbody|td|th|thead|time|title|tr|ul)( (action|aria-current|aria-hidden|aria-label|` +
		`aria-labelledby|autocomplete|charset|class|colspan|content|d|data-events|data-full|data-key|data-now|data-since|data-until|datetime|defer|fill|` +
		`height|hidden|href|id|lang|max|maxlength|method|name|placeholder|rel|role|rx|scope|spellcheck|src|stroke|stroke-width|tabindex|type|` +
		`value|viewBox|width|x|y))*)/?>$`)
)

// strangeTags returns those tags of a page that cannot come from the templates.
func strangeTags(page string) (strange []string) {
	for _, found := range tag.FindAllString(page, -1) {
		if !knownTag.MatchString(value.ReplaceAllString(found, "")) || strings.Contains(found, "<script") && found != `<script src="page.js" defer>` {
			strange = append(strange, found)
		}
	}
	return strange
}

// No name becomes markup, whatever bytes it contains, and the link of a name leads to its lock.
func TestPage_NamesAreData(t *testing.T) {
	t.Parallel()
	f, links := &fake{}, regexp.MustCompile(`<a href="lock\?name=([^"]*)"`)
	p := newPage(f.source(), Options{AllowFree: true})
	for _, name := range hostile {
		e := held(name, 1)
		e.Holders[0].Process.Name = name
		e.Queue = []string{owner}
		f.set(e)
		p.looker = newLooker(f.source(), "")
		list := get(p, "/").Body.String()
		require.Len(t, links.FindAllString(list, -1), 1, "%q", name)
		found, err := url.QueryUnescape(html.UnescapeString(links.FindStringSubmatch(list)[1]))
		require.NoError(t, err)
		assert.Equal(t, name, found)

		address := view{Page: "lock", Name: name}.Address()
		pages := []string{list, get(p, "/lock"+address).Body.String(), get(p, "/free"+address).Body.String(), get(p, "/?q="+url.QueryEscape(name)).Body.String()}
		for _, page := range pages {
			assert.Empty(t, strangeTags(page), "%q", name)
			assert.NotRegexp(t, `[\x00-\x09\x0b-\x1f\x7f\x{202e}\x{2066}\x{fffd}]`, tag.ReplaceAllString(page, ""), "%q", name)
		}
		assert.Contains(t, pages[1], `data-key="facts"`)
		assert.Contains(t, pages[1], "held", "the lock was found")
		w := post(p, "/free"+address, "same-origin", url.Values{"holder": {owner}})
		require.Equal(t, http.StatusSeeOther, w.Code)
		to, err := url.Parse(w.Header().Get("Location"))
		require.NoError(t, err)
		assert.Equal(t, name, to.Query().Get("name"))
	}
}

// A stream sends everything once, and then what has changed.
func TestStream_SendsChanges(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.set(held("a</script>", 0), held("b", 0))
	site := httptest.NewServer(newPage(f.source(), Options{}))
	defer site.Close()
	answer, err := http.Get(site.URL + "/events") //nolint:noctx // It ends with the test.
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	assert.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	rows := func() update {
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			var e event
			if !ok || json.Unmarshal([]byte(data), &e) != nil {
				continue
			}
			assert.NotContains(t, data, "</script>")
			for _, u := range e.Parts {
				if u.ID == "rows" {
					return u
				}
			}
		}
		return update{}
	}
	assert.Equal(t, []string{"a%3C%2Fscript%3E", "b"}, rows().Order)
	f.set(held("a</script>", 0), held("b", 4))
	u := rows()
	for len(u.Order) > 0 && u.Order[0] != "b" {
		u = rows()
	}
	assert.Equal(t, []string{"b", "a%3C%2Fscript%3E"}, u.Order)
	assert.Contains(t, u.Items["b"], "waiting")
	f.set()
	for u = rows(); len(u.Order) > 1; u = rows() {
	}
	assert.Equal(t, []string{"none"}, u.Order)
}

// The page works under any prefix, with http.StripPrefix or without.
func TestPage_AnyPrefix(t *testing.T) {
	t.Parallel()
	h := newPage((&fake{}).source(), Options{})
	mux := http.NewServeMux()
	mux.Handle("/a/b/", http.StripPrefix("/a/b", h))
	mux.Handle("/c/d/", h)
	mux.Handle("/e", http.StripPrefix("/e", h))
	for _, prefix := range []string{"/a/b/", "/c/d/"} {
		for _, path := range []string{"", "lock?name=x", "processes", "page.css", "page.js", "icon.svg"} {
			assert.Equal(t, http.StatusOK, get(mux, prefix+path).Code, prefix+path)
		}
		assert.Equal(t, http.StatusNotFound, get(mux, prefix+"else").Code)
		assert.Equal(t, http.StatusForbidden, get(mux, prefix+"free?name=x").Code)
	}
	moved := get(mux, "/e?q=x")
	assert.Equal(t, http.StatusFound, moved.Code)
	assert.Equal(t, "./e/?q=x", moved.Header().Get("Location"))
	assert.Equal(t, http.StatusMethodNotAllowed, post(mux, "/c/d/", "", nil).Code)
	page := get(mux, "/c/d/")
	assert.NotRegexp(t, `(href|src|action)="/`, page.Body.String(), "addresses are relative")
	assert.NotRegexp(t, `<script>|style=|\son[a-z]+=`, page.Body.String(), "nothing that the policy forbids")
	assert.Contains(t, page.Header().Get("Content-Security-Policy"), "default-src 'none'")
}

func TestPage_RedisIsAway(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.fail(errors.New("<b>no route"))
	p := newPage(f.source(), Options{AllowFree: true})
	page := get(p, "/")
	assert.Equal(t, http.StatusServiceUnavailable, page.Code)
	assert.Contains(t, page.Body.String(), "&lt;b&gt;no route")
	assert.Equal(t, http.StatusBadGateway, post(p, "/free?name=x", "same-origin", url.Values{"holder": {owner}}).Code)
}

// If a name cannot be looked at, only the viewers of that name get an error.
func TestPage_BadNames(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	require.NoError(t, client.HSet(t.Context(), "orders", owner, 1).Err())
	require.NoError(t, client.LPush(t.Context(), "list", 1).Err())
	h := Handler(client, Options{AllowFree: true})
	for _, path := range []string{"/lock", "/events?view=lock", "/free", "/lock?name=" + strings.Repeat("x", 513)} {
		assert.Equal(t, http.StatusBadRequest, get(h, path).Code, path)
	}
	assert.Contains(t, get(h, "/lock?name=list").Body.String(), "the key holds a list")
	assert.Equal(t, http.StatusBadRequest, post(h, "/free?name=list", "same-origin", url.Values{"holder": {owner}}).Code)
	list := get(h, "/").Body.String()
	assert.Contains(t, list, "lock?name=orders")
	assert.NotContains(t, list, "cannot be read")
}

// A viewer who was shown one holder does not free the lock of another holder.
func TestFree_AsksAgainIfTheHolderHasChanged(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.set(held("orders", 0))
	p := newPage(f.source(), Options{AllowFree: true})
	w := post(p, "/free?name=orders", "same-origin", url.Values{"holder": {"another"}})
	assert.Equal(t, http.StatusConflict, w.Code)
	assert.Contains(t, w.Body.String(), "has changed")
}

func TestList_FiltersAndPages(t *testing.T) {
	t.Parallel()
	f := &fake{}
	var entries []inspect.Entry
	for i := range 250 {
		entries = append(entries, held("lock-"+string(rune('a'+i%26))+strings.Repeat("x", i/26), 0))
	}
	fair := held("queue", 7)
	fair.Kind = protocol.KindFair
	f.set(append(entries, fair)...)
	p := newPage(f.source(), Options{})
	rows := func(query string) int { return strings.Count(get(p, "/"+query).Body.String(), "<tr data-key=") }
	assert.Equal(t, 100, rows(""))
	assert.Equal(t, 51, rows("?page=3"))
	assert.Equal(t, 51, rows("?page=99"), "the last page")
	assert.Equal(t, 1, rows("?only=contended"))
	assert.Equal(t, 1, rows("?q=FAIR+que"))
	assert.Less(t, strings.Index(get(p, "/").Body.String(), "queue"), strings.Index(get(p, "/").Body.String(), "lock-a"), "contended first")
}

func TestPage_Cluster(t *testing.T) {
	t.Parallel()
	client, name := redistest.SharedCluster(t).Client(t), redistest.Name(t)
	require.NoError(t, client.HSet(t.Context(), name, owner, 1).Err())
	h := Handler(client, Options{AllowFree: true, Pattern: name})
	assert.Contains(t, get(h, "/").Body.String(), url.QueryEscape(name))
	assert.Equal(t, http.StatusSeeOther, post(h, "/free", "same-origin", url.Values{"name": {name}, "holder": {owner}}).Code)
	entry, err := inspect.Look(t.Context(), client, name)
	require.NoError(t, err)
	assert.Empty(t, entry.Holders)
}
