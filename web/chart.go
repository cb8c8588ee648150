package web

import (
	"fmt"
	"strings"
	"time"
)

const (
	chartWide, chartHigh = 600, 80
	chartFor             = 2 * time.Minute
)

// chart draws how the lease of the first holder has fallen, and jumped when it was renewed.
func (r *renderer) chart(l *lock) any {
	var line strings.Builder
	var full time.Duration
	for _, s := range l.samples {
		full = max(full, s.full)
	}
	if full > 0 {
		draw(&line, l.samples, full)
	}
	return struct {
		Key, Line  string
		Wide, High int
		Full       string
	}{"chart", line.String(), chartWide, chartHigh, span(full)}
}

// draw draws one line for each time in which the lock was held. The newest sample is at the right.
func draw(line *strings.Builder, samples []sample, full time.Duration) {
	newest := samples[len(samples)-1].at
	move := "M"
	point := func(at time.Time, left time.Duration) {
		x := chartWide - float64(newest.Sub(at))/float64(chartFor)*chartWide
		y := chartHigh - float64(max(0, left))/float64(full)*chartHigh
		fmt.Fprintf(line, "%s%.1f %.1f", move, x, y)
		move = "L"
	}
	for i, s := range samples {
		switch {
		case newest.Sub(s.at) > chartFor:
			continue
		case s.until.IsZero():
			move = "M"
			continue
		case i > 0 && move == "L" && !samples[i-1].until.Equal(s.until): // it was renewed since the last look
			point(s.at, samples[i-1].until.Sub(s.at))
		}
		point(s.at, s.until.Sub(s.at))
	}
}
