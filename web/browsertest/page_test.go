package browsertest

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/web"
)

var pictures = flag.String("pictures", "", "a folder for pictures of the page")

// theme sets which theme the viewer prefers: light or dark.
func theme(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, media)
		return err
	})
}

// withoutScripts turns JavaScript off.
func withoutScripts(ctx context.Context, target *chromedp.Target) error {
	_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	return err
}

// picture saves a picture of the window, if a folder for pictures is given.
func (b *tab) picture(name string) {
	if *pictures == "" {
		return
	}
	png, err := chromedp.Run(b, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(*pictures, name), png, 0o644))
}

const live = `document.querySelector('.live') && !document.body.classList.contains('stale')`

// fits is true if nothing is wider than the window.
const fits = `document.scrollingElement.scrollWidth <= innerWidth`

func TestPage_Looks(t *testing.T) {
	b, w := open(t), newWorld(t, web.Options{AllowFree: true})
	w.busy()
	b.do(chromedp.EmulateViewport(1100, 760), theme("light"), chromedp.Navigate(w.address))
	b.sees(live + ` && document.querySelectorAll('#rows .waiting').length === 3`)
	b.picture("page-light.png")
	b.do(theme("dark"))
	b.picture("page-dark.png")
	b.do(theme("light"), chromedp.EmulateViewport(390, 760))
	assert.Equal(t, "true", b.text(fits))
	b.picture("page-phone.png")

	b.do(chromedp.EmulateViewport(1100, 760), chromedp.Navigate(w.address+"lock?name=invoice:2026-11"))
	if *pictures != "" {
		b.do(chromedp.Sleep(45 * time.Second)) // so that the chart shows some renewals
	}
	b.sees(live + ` && document.querySelectorAll('#queue li').length === 4`)
	b.picture("page-lock.png")
	b.do(theme("dark"), chromedp.EmulateViewport(390, 760))
	assert.Equal(t, "true", b.text(fits))
	b.do(chromedp.Navigate(w.address + "processes"))
	b.sees(live + ` && document.querySelectorAll('#processes tr').length === 9`)
	assert.Equal(t, "true", b.text(fits))
	assert.Empty(t, b.complaints())
}

// Acquires, waiters and releases show without a reload. The search and the focus stay as they are.
func TestPage_IsLive(t *testing.T) {
	b, w := open(t), newWorld(t, web.Options{})
	rt := w.process("orders@web-1:1")
	b.do(chromedp.Navigate(w.address))
	b.sees(live + ` && document.querySelector('#rows .empty')`)
	lease := w.hold(rt.Lock("order:1"))
	w.hold(rt.Lock("other"))
	b.sees(`document.querySelectorAll('#rows tr[data-key]').length === 2 && document.querySelector('#rows').innerText.includes('orders@web-1:1')`)
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("j"))
	assert.Equal(t, "other", b.text("document.activeElement.innerText"))
	left := b.text(`document.querySelector('#rows progress').value`)
	b.sees(`document.querySelector('#rows progress').value < ` + left)
	b.text(`window.row = document.querySelector('tr[data-key="order%3A1"]')`)
	w.wait(w.process("second").Lock("order:1"))
	b.sees(`row.isConnected && row.querySelector('.waiting')`)
	assert.Equal(t, "other", b.text("document.activeElement.innerText"))

	b.do(chromedp.KeyEvent("/"))
	b.text(`document.activeElement.value = ''`) // empties the field: the driver also types the character, although the page has handled the key
	b.do(chromedp.KeyEvent("OTH"))
	b.sees(`location.search === '?q=OTH' && document.querySelectorAll('#rows tr').length === 1`)
	assert.Equal(t, "OTH", b.text("document.activeElement.value"))
	b.do(chromedp.KeyEvent(kb.Escape))
	b.sees(`location.search === '' && document.querySelectorAll('#rows tr').length === 2`)

	b.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	b.sees(`location.search === '?name=order%3A1' && ` + live)
	require.NoError(t, lease.Release(t.Context()))
	b.sees(`[...document.querySelectorAll('#history li')].some((li) => li.innerText.includes('orders@web-1:1'))`)
	assert.Empty(t, b.complaints())
}

// Names are data: markup in a name does not become part of the page, and each name leads to its own lock.
func TestPage_HostileNames(t *testing.T) {
	b, w := open(t), newWorld(t, web.Options{AllowFree: true})
	w.takeHostile()
	b.do(chromedp.EmulateViewport(390, 760), chromedp.Navigate(w.address))
	b.sees(live + ` && document.querySelectorAll('#rows tr').length === 11`)
	assert.Equal(t, "true", b.text(fits))
	assert.Equal(t, "1", b.text(`document.querySelectorAll('h1').length`))
	for _, name := range hostile {
		b.do(chromedp.Navigate(w.address))
		b.sees(live)
		b.text(`document.querySelector('tr[data-key="` + url.QueryEscape(name) + `"] a').click()`)
		b.sees(`location.pathname.endsWith('/lock') && document.querySelectorAll('#holders li').length === 1 && ` + live)
		assert.Equal(t, "true", b.text(fits))
		b.text(`document.querySelector('.danger').click()`) // not chromedp.Click: the page may replace the element between finding and clicking it
		b.sees(`document.querySelector('button.danger')`)
		b.text(`document.querySelector('button.danger').click()`)
		b.sees(`document.querySelector('.done')`)
		entry, err := inspect.Look(t.Context(), w.client, name)
		require.NoError(t, err)
		assert.Empty(t, entry.Holders, "%q was freed", name)
	}
	assert.Equal(t, "undefined", b.text("window.hacked"))
	assert.Empty(t, b.complaints())
}

// A page of another site cannot free a lock by submitting the form from a user's browser: the request is refused as cross-origin.
func TestPage_ForeignSite(t *testing.T) {
	b, w := open(t), newWorld(t, web.Options{AllowFree: true})
	require.NoError(t, w.client.HSet(t.Context(), "orders", owner, 1).Err())
	elsewhere := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte(`<form method="post" action="` + w.address + `free"><input name="name" value="orders"></form><iframe src="` + w.address +
			`"></iframe><script>document.forms[0].submit()</script>`))
	}))
	defer elsewhere.Close()
	b.do(chromedp.Navigate(elsewhere.URL))
	b.sees(`location.pathname === '/locks/free' && document.body.innerText.includes('cross-origin')`)
	entry, err := inspect.Look(t.Context(), w.client, "orders")
	require.NoError(t, err)
	assert.Len(t, entry.Holders, 1)
}

// inBackground makes each page believe that it is in a background tab, until the test sets the page's variable `seen`. It counts the streams that the
// page opens.
func inBackground(ctx context.Context, target *chromedp.Target) error {
	_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		let seen = false, streams = 0;
		Object.defineProperty(Document.prototype, 'hidden', { get: () => !seen });
		EventSource = class extends EventSource { constructor(address) { super(address); streams++; } };`})
	return err
}

// A tab that is opened in the background has no stream until somebody looks at it. Browsers open at most six connections to a server, and a tab that
// gets none loads for ever.
func TestPage_TabInTheBackground(t *testing.T) {
	b, w := open(t), newWorld(t, web.Options{})
	b.do(chromedp.Func(inBackground), chromedp.Navigate(w.address))
	b.sees("document.readyState === 'complete' && !document.querySelector('.keys').hidden") // the script has run
	assert.Equal(t, "0", b.text("streams"))
	b.sees("(seen = true) && document.dispatchEvent(new Event('visibilitychange'))")
	b.sees(live)
	assert.Equal(t, "1", b.text("streams"))
	assert.Empty(t, b.complaints())
}

func TestPage_WithoutJavaScript(t *testing.T) {
	b, w := open(t), newWorld(t, web.Options{AllowFree: true})
	require.NoError(t, w.client.HSet(t.Context(), "orders", owner, 1).Err())
	loaded := func(what string) {
		b.sees("document.readyState === 'complete' && document.querySelector('" + what + "')")
	}
	b.do(chromedp.Func(withoutScripts), chromedp.Navigate(w.address))
	loaded("#search button")
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=q]"), "orde"), chromedp.Click(chromedp.CSS("#search button")))
	b.sees("location.search.includes('q=orde')")
	loaded("#rows a")
	b.do(chromedp.Click(chromedp.CSS("#rows a")))
	loaded("#holders li")
	b.do(chromedp.Click(chromedp.CSS(".danger")))
	loaded("button.danger")
	b.do(chromedp.Click(chromedp.CSS("button.danger")))
	loaded(".done")
	entry, err := inspect.Look(t.Context(), w.client, "orders")
	require.NoError(t, err)
	assert.Empty(t, entry.Holders)
}
