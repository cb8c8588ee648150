package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const owner = "0b9ee048-07f2-4b95-a28a-f1d91418d5c8:1"

// post posts a form, as browsers do from a page of the given site.
func post(h http.Handler, address, site string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	switch site {
	case "":
	case "same-origin", "same-site", "cross-site", "none":
		r.Header.Set("Sec-Fetch-Site", site)
	default:
		r.Header.Set("Origin", site)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestFree_OnlyFromItsOwnPage(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	h := Handler(client, Options{AllowFree: true})
	for _, c := range []struct {
		site  string
		freed bool
	}{
		{"cross-site", false}, {"same-site", false}, {"https://elsewhere.example", false}, {"null", false},
		{"same-origin", true}, {"http://example.com", true}, {"", true}, // without a browser
	} {
		require.NoError(t, client.HSet(t.Context(), "orders", owner, 1).Err())
		w := post(h, "http://example.com/locks/free", c.site, url.Values{"name": {"orders"}, "holder": {owner}})
		entry, err := inspect.Look(t.Context(), client, "orders")
		require.NoError(t, err)
		assert.Equal(t, c.freed, len(entry.Holders) == 0, c.site)
		if c.freed {
			assert.Equal(t, http.StatusSeeOther, w.Code, c.site)
			assert.Equal(t, "lock?name=orders&done=freed", w.Header().Get("Location"))
		} else {
			assert.Equal(t, http.StatusForbidden, w.Code, c.site)
		}
	}
}

func TestFree_IsOffByDefault(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	require.NoError(t, client.HSet(t.Context(), "orders", owner, 1).Err())
	h := Handler(client, Options{})
	assert.Equal(t, http.StatusForbidden, post(h, "/free", "same-origin", url.Values{"name": {"orders"}, "holder": {owner}}).Code)
	entry, err := inspect.Look(t.Context(), client, "orders")
	require.NoError(t, err)
	assert.Len(t, entry.Holders, 1)
}

// A program frees a lock by posting a form that has only the field "name", no matter who holds the lock.
func TestFree_ByAProgram(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	require.NoError(t, client.HSet(t.Context(), "orders", owner, 1).Err())
	h := Handler(client, Options{AllowFree: true})
	for _, done := range []string{"freed", "nothing"} {
		w := post(h, "/locks/free", "", url.Values{"name": {"orders"}})
		assert.Equal(t, http.StatusSeeOther, w.Code)
		assert.Equal(t, "lock?name=orders&done="+done, w.Header().Get("Location"))
		entry, err := inspect.Look(t.Context(), client, "orders")
		require.NoError(t, err)
		assert.Empty(t, entry.Holders)
	}
}

// A request frees nothing if only its URL names the lock and its holder: the form must name what is to be freed.
func TestFree_NotWithoutTheHolders(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	require.NoError(t, client.HSet(t.Context(), "orders", owner, 1).Err())
	h := Handler(client, Options{AllowFree: true})
	for _, address := range []string{"/free?name=orders", "/free?name=orders&holder=" + url.QueryEscape(owner)} {
		w := post(h, address, "same-origin", nil)
		assert.Equal(t, http.StatusBadRequest, w.Code, address)
		assert.Contains(t, w.Body.String(), "does not name the holders", address)
	}
	entry, err := inspect.Look(t.Context(), client, "orders")
	require.NoError(t, err)
	assert.Len(t, entry.Holders, 1)
}
