package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"

	"github.com/holdfast-go/holdfast/bench/load"
)

// chart is a line chart on two axes, drawn in a box of fixed size that scales with the screen.
type chart struct {
	label            string
	xs, ys           axis
	lines            []line
	width, height    float64
	left, right, top float64
	bottom           float64
}

type line struct {
	class  string
	points [][2]float64
}

// axis is an axis of a chart, with labels at its ticks. A position on the axis is called a place. It is a value on the axis's scale: on a logarithmic
// axis, it is the logarithm of a figure. The method `share` converts a place to a share of the axis's length.
type axis struct {
	from, to float64 // the places of its two ends
	ticks    []tickMark
	title    string
}

type tickMark struct {
	place float64
	text  string
}

func (a axis) share(place float64) float64 {
	if a.to == a.from {
		return 0.5
	}
	return (place - a.from) / (a.to - a.from)
}

// logAxis returns a logarithmic axis, labelled at powers of ten.
func logAxis(title string, least, most float64, unit Unit) axis {
	a := axis{from: math.Floor(math.Log10(least)), to: math.Ceil(math.Log10(most)), title: title}
	if a.from == a.to {
		a.to++
	}
	step := math.Ceil((a.to - a.from) / 6)
	for place := a.from; place <= a.to; place += step {
		a.ticks = append(a.ticks, tickMark{place, unit(math.Pow(10, place))})
	}
	return a
}

func (c chart) draw() template.HTML {
	c.width, c.height, c.left, c.right, c.top, c.bottom = 360, 230, 56, 12, 18, 34
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="lines" viewBox="0 0 %g %g" role="img" aria-label="%s">`, c.width, c.height, html.EscapeString(c.label))
	c.drawAxes(&b)
	for _, l := range c.lines {
		var points []string
		for _, p := range l.points {
			x, y := c.at(p[0], p[1])
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
		}
		fmt.Fprintf(&b, `<polyline class="%s" points="%s"/>`, l.class, strings.Join(points, " "))
		if len(points) <= 6 {
			for _, p := range l.points {
				x, y := c.at(p[0], p[1])
				fmt.Fprintf(&b, `<circle class="%s" cx="%.1f" cy="%.1f" r="2.6"/>`, l.class, x, y)
			}
		}
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // all text in it is escaped
}

// at returns where a point is drawn.
func (c chart) at(x, y float64) (float64, float64) {
	return c.left + c.xs.share(x)*(c.width-c.left-c.right), c.height - c.bottom - c.ys.share(y)*(c.height-c.top-c.bottom)
}

func (c chart) drawAxes(b *strings.Builder) {
	for _, t := range c.ys.ticks {
		_, y := c.at(c.xs.from, t.place)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, c.left, c.width-c.right, y, y)
		fmt.Fprintf(b, `<text class="tick y" x="%.1f" y="%.1f">%s</text>`, c.left-4, y+3, html.EscapeString(t.text))
	}
	for _, t := range c.xs.ticks {
		x, _ := c.at(t.place, c.ys.from)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x, x, c.top, c.height-c.bottom)
		anchor := "x"
		if x > c.width-30 {
			anchor = "y" // right-aligned, because the box ends here
		}
		fmt.Fprintf(b, `<text class="tick %s" x="%.1f" y="%.1f">%s</text>`, anchor, x+c.right*c.xs.share(t.place)*0.9, c.height-c.bottom+12, html.EscapeString(t.text))
	}
	fmt.Fprintf(b, `<text class="tick x" x="%.1f" y="%.1f">%s</text>`, (c.left+c.width-c.right)/2, c.height-5, html.EscapeString(c.xs.title))
	fmt.Fprintf(b, `<text class="tick" x="0" y="10">%s</text>`, html.EscapeString(c.ys.title))
}

// percentiles are the points of a curve of waits, and their labels.
var percentiles = []tickMark{
	{0, "0"}, {50, "50 %"}, {75, ""}, {90, "90 %"}, {95, ""}, {99, "99 %"}, {99.5, ""}, {99.9, "99.9 %"}, {99.95, ""}, {99.99, "99.99 %"},
}

// nines maps a percentile to a scale on which 90 to 99 is as long as 99 to 99.9.
func nines(percentile float64) float64 { return -math.Log10(1 - percentile/100) }

// waits draws how long the acquires of each contender waited, by percentile.
func (p *page) waits(w *Workload) template.HTML {
	c := chart{label: "waits in " + w.Title, xs: axis{to: nines(99.99), title: "share of the acquires"}}
	for _, t := range percentiles {
		if t.text != "" {
			c.xs.ticks = append(c.xs.ticks, tickMark{nines(t.place), t.text})
		}
	}
	least, most := math.Inf(1), 0.0
	for _, o := range w.Outcomes {
		h, err := load.Decode(o.Waits)
		if err != nil || h.TotalCount() == 0 {
			continue
		}
		l := line{class: p.class(o.Peer)}
		for _, t := range percentiles {
			if float64(h.TotalCount())*(1-t.place/100) < 1 {
				break // too few acquires for this percentile
			}
			us := max(float64(h.ValueAtQuantile(t.place))/1e3, 0.01)
			least, most = min(least, us), max(most, us)
			l.points = append(l.points, [2]float64{nines(t.place), math.Log10(us)})
		}
		c.lines = append(c.lines, l)
	}
	if len(c.lines) == 0 {
		return ""
	}
	c.ys = logAxis("wait", least, most, Micros)
	return c.draw()
}
