package report

import (
	"fmt"
	"html"
	"html/template"
	"strings"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// rowHeight is the height of one bar with its text, in px.
const rowHeight = 36

// bars draws a bar for each contender. All bars begin at zero and have the same linear scale. A line on each bar shows the lowest and
// the highest repetition. Lengths are in percent of the width, so that text keeps its size on every screen.
func (p *page) bars(w *Workload) template.HTML {
	most := p.scale(w)
	if most == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bars" width="100%%" height="%d" role="img" aria-label="%s">`, rowHeight*len(w.Outcomes), html.EscapeString(w.Title))
	unit := Columns(w)[0].Unit
	for i, o := range w.Outcomes {
		y := i * rowHeight
		fmt.Fprintf(&b, `<text x="0" y="%d">%s</text>`, y+13, html.EscapeString(o.Peer))
		s, ok := o.Summary[w.Primary]
		if !ok {
			what := "failed"
			if o.Refused != "" {
				what = "not measured"
			}
			fmt.Fprintf(&b, `<text class="value" x="100%%" y="%d">%s</text>`, y+13, what)
			continue
		}
		text := unit(s.Median)
		if o.Wide {
			text += wideMark
		}
		percent := func(v float64) float64 { return min(100*v/most, 100) }
		class := p.class(o.Peer)
		if s.Median > most {
			text, class = text+", beyond the scale", class+" beyond"
		}
		fmt.Fprintf(&b, `<text class="value" x="100%%" y="%d">%s</text>`, y+13, text)
		fmt.Fprintf(&b, `<rect class="ground" x="0" y="%d" width="100%%" height="9" rx="2"/>`, y+19)
		fmt.Fprintf(&b, `<rect class="%s" x="0" y="%d" width="%.2f%%" height="9" rx="2"/>`, class, y+19, max(percent(s.Median), 0.3))
		fmt.Fprintf(&b, `<line class="spread" x1="%.2f%%" x2="%.2f%%" y1="%d" y2="%d"/>`, percent(s.Least), percent(s.Most), y+23, y+23)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // all text in it is escaped
}

// scale returns the value that the full width represents. Ceilings (locks that need no server) do not count: beside a very long bar, the
// others could not be seen.
func (p *page) scale(w *Workload) (most float64) {
	for _, o := range w.Outcomes {
		if !p.isCeiling(o.Peer) {
			most = max(most, o.Summary[w.Primary].Most)
		}
	}
	return most
}

func (p *page) isCeiling(name string) bool {
	for _, one := range p.Peers {
		if one.Name == name {
			return one.Role == peer.Ceiling
		}
	}
	return false
}
