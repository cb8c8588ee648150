//go:build unix

package terminaltest

import (
	"encoding/xml"
	"flag"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var pictures = flag.String("pictures", "", "a folder for pictures of the terminal")

// busy returns a server with locks of many kinds, as services use them.
func busy(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Start(t)
	client := server.Client(t)
	shop, jobs, api := service(t, client, "shop@web-1:4711"), service(t, client, "jobs@worker-7:99"), service(t, client, "api@web-2:1201")
	hold(t, shop.Lock("order:4711"))
	hold(t, api.Lock("order:4712"))
	hold(t, jobs.FairLock("printer"))
	hold(t, jobs.FencedLock("billing:2026-11"))
	hold(t, shop.RWLock("catalogue").Read())
	hold(t, api.RWLock("catalogue").Read())
	hold(t, api.RWLock("prices").Write())
	exports := jobs.PermitSemaphore("exports")
	_, err := exports.TrySetPermits(t.Context(), 12)
	require.NoError(t, err)
	for range 3 {
		hold(t, exports)
	}
	_, err = jobs.CountDownLatch("migration").TrySetCount(t.Context(), 4)
	require.NoError(t, err)
	wait := func(name string, l waiter) {
		before, err := inspect.Look(t.Context(), client, name)
		require.NoError(t, err)
		waiting := l.AcquireAsync(t.Context())
		t.Cleanup(func() { waiting.Cancel() })
		locktest.Await(t, "the waiter", func() bool {
			e, err := inspect.Look(t.Context(), client, name)
			return assert.NoError(t, err) && e.Waiting > before.Waiting
		})
	}
	wait("order:4711", api.Lock("order:4711"))
	wait("order:4711", jobs.Lock("order:4711"))
	wait("printer", shop.FairLock("printer"))
	wait("catalogue", jobs.RWLock("catalogue").Write())
	return server
}

// TestPictures takes the pictures of doc/command.md. Without -pictures it only checks that they could be taken.
func TestPictures(t *testing.T) {
	t.Parallel()
	server := busy(t)
	top := open(t, 92, 15)
	top.run(server.URL(), binary, "top")
	top.shows("> order:4711", "migration", "3 of 12 permits", "catalogue")
	top.picture("top.svg", "holdfast top")
	top.types(enter)
	top.shows("held by   shop@web-1:4711")
	if *pictures != "" {
		top.shows("renewed   yes, ") // after a third of the lease
	}
	top.picture("top-lock.svg", "holdfast top")

	ls := open(t, 92, 12)
	ls.run(server.URL(), binary, "ls")
	require.Equal(t, 0, ls.code())
	ls.shows("order:4711", "migration")
	ls.picture("ls.svg", "holdfast ls")
}

// The sizes of a picture, in its units.
const (
	cellWide, cellHigh = 8.4, 19.0
	border, title      = 16.0, 34.0
)

// picture draws the screen as SVG. With -pictures it writes the file.
func (x *terminal) picture(name, caption string) {
	x.t.Helper()
	columns, rows := x.Width(), x.Height()
	for rows > 1 && strings.TrimSpace(splitLines(x.String())[rows-1]) == "" {
		rows--
	}
	wide, high := float64(columns)*cellWide+2*border, float64(rows)*cellHigh+title+border
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14">`+"\n", wide, high, wide, high)
	fmt.Fprintf(&b, `<title>%s</title><rect width="100%%" height="100%%" rx="8" fill="#1c2128"/>`+"\n", caption)
	for i, c := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="17" r="5.5" fill="%s"/>`, 20+18*i, c)
	}
	fmt.Fprintf(&b, `<text x="50%%" y="22" text-anchor="middle" fill="#8b949e" font-size="13">%s</text>`+"\n", caption)
	for y := range rows {
		for _, r := range x.runs(y) {
			r.draw(&b, border+float64(r.at)*cellWide, title+float64(y)*cellHigh)
		}
	}
	b.WriteString("</svg>\n")
	require.NoError(x.t, xml.Unmarshal([]byte(b.String()), new(struct{})))
	if *pictures != "" {
		require.NoError(x.t, os.WriteFile(filepath.Join(*pictures, name), []byte(b.String()), 0o644))
	}
}

// run is a sequence of cells in one line of the screen that have the same style.
type run struct {
	at, wide int
	text     string
	style    uv.Style
}

func (x *terminal) runs(y int) (all []run) {
	for column := 0; column < x.Width(); {
		c := x.CellAt(column, y)
		if c == nil || c.Width == 0 {
			column++
			continue
		}
		if last := len(all) - 1; last >= 0 && all[last].style.Equal(&c.Style) {
			all[last].text += c.Content
			all[last].wide += c.Width
		} else {
			all = append(all, run{column, c.Width, c.Content, c.Style})
		}
		column += c.Width
	}
	return all
}

func (r run) draw(b *strings.Builder, x, y float64) {
	ink, paper := "#d1d7e0", ""
	if i, ok := r.style.Fg.(ansi.BasicColor); ok {
		ink = map[color.Color]string{ansi.Red: "#ff7b72", ansi.Yellow: "#e3b341", ansi.Green: "#56d364"}[i]
	}
	if r.style.Attrs&uv.AttrReverse != 0 {
		ink, paper = "#1c2128", "#d1d7e0"
	}
	if paper != "" {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, x, y, float64(r.wide)*cellWide, cellHigh, paper)
	}
	if strings.TrimSpace(r.text) == "" {
		return
	}
	attributes := ""
	if r.style.Attrs&uv.AttrBold != 0 {
		attributes += ` font-weight="bold"`
	}
	if r.style.Attrs&uv.AttrFaint != 0 {
		attributes += ` opacity="0.65"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="%s" xml:space="preserve" textLength="%.1f" lengthAdjust="spacingAndGlyphs"%s>`, x, y+14, ink, float64(r.wide)*cellWide, attributes)
	_ = xml.EscapeText(b, []byte(r.text))
	b.WriteString("</text>\n")
}
