package report

import (
	"html/template"
	"math"

	"github.com/holdfast-go/holdfast/bench/workload"
)

// series is one figure over several workloads that differ in one number.
type series struct {
	Title string
	Chart template.HTML
	Peers []colour
}

// seriesTitles has the title of each series.
var seriesTitles = map[string]string{
	"distinct":          "Distinct locks over goroutines",
	"hot":               "Hot lock over goroutines of one process",
	"hot-processes-0ms": "Hot lock over processes, empty section",
	"hot-processes-1ms": "Hot lock over processes, 1 ms section",
	"held":              "Held leases",
}

// allSeries returns a chart for each series and each of the figures that seriesFigures lists for it.
func (p *page) allSeries() (all []series) {
	var names []string
	members := map[string][]*Workload{}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if w.Series == "" {
			continue
		}
		if members[w.Series] == nil {
			names = append(names, w.Series)
		}
		members[w.Series] = append(members[w.Series], w)
	}
	for _, name := range names {
		if len(members[name]) < 2 {
			continue
		}
		for _, f := range seriesFigures(members[name][0]) {
			all = append(all, p.oneSeries(seriesTitles[name], f, members[name]))
		}
	}
	return all
}

func seriesFigures(w *Workload) []Figure {
	if w.Shape == workload.Holding {
		return []Figure{{"cpu_cores", "CPU", Cores}, {"heap_bytes_per_lock", "heap for each lock", Bytes}}
	}
	return []Figure{{"pairs_per_s", "pairs/s", Count}, {"wait_p99_us", "wait, p99", Micros}, {"scripts_per_pair", "scripts for a pair", Ratio}}
}

func (p *page) oneSeries(title string, f Figure, members []*Workload) series {
	s := series{Title: title + ": " + f.Title}
	c := chart{label: s.Title, xs: axis{title: members[0].XLabel}}
	least, most := math.Inf(1), 0.0
	c.xs.from, c.xs.to = math.Log10(float64(members[0].X)), math.Log10(float64(members[len(members)-1].X))
	for _, w := range members {
		c.xs.ticks = append(c.xs.ticks, tickMark{math.Log10(float64(w.X)), Count(float64(w.X))})
	}
	for _, colour := range p.Colours {
		l := line{class: colour.Class}
		for _, w := range members {
			o := w.Outcome(colour.Peer)
			if o == nil || o.Summary[f.Name].Median <= 0 {
				continue
			}
			v := o.Summary[f.Name].Median
			least, most = min(least, v), max(most, v)
			l.points = append(l.points, [2]float64{math.Log10(float64(w.X)), math.Log10(v)})
		}
		if len(l.points) > 0 {
			c.lines = append(c.lines, l)
			s.Peers = append(s.Peers, colour)
		}
	}
	if len(c.lines) > 0 {
		c.ys = logAxis(f.Title, least, most, f.Unit)
		s.Chart = c.draw()
	}
	return s
}
