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

// chart draws a curve: how much time was left of the first holder's lease at each instant. The curve falls, and jumps up at each renewal.
func (r *renderer) chart(l *lock) any {
	var line, area strings.Builder
	var full time.Duration
	for _, s := range l.samples {
		full = max(full, s.full)
	}
	if full > 0 {
		for _, stretch := range stretches(l.samples, full) {
			draw(&line, stretch)
			draw(&area, stretch)
			fmt.Fprintf(&area, "L%.1f %d L%.1f %d Z", stretch[len(stretch)-1].x, chartHigh, stretch[0].x, chartHigh)
		}
	}
	return struct {
		Key, Line, Area string
		Wide, High      int
		Full            string
	}{"chart", line.String(), area.String(), chartWide, chartHigh, span(full)}
}

type point struct{ x, y float64 }

// stretches returns a line of points for each period in which the lock was held. The newest sample is at the right.
func stretches(samples []sample, full time.Duration) (lines [][]point) {
	newest := samples[len(samples)-1].at
	var line []point
	add := func(at time.Time, left time.Duration) {
		x := chartWide - float64(newest.Sub(at))/float64(chartFor)*chartWide
		line = append(line, point{x, chartHigh - float64(max(0, left))/float64(full)*chartHigh})
	}
	end := func() {
		if len(line) > 0 {
			lines, line = append(lines, line), nil
		}
	}
	for i, s := range samples {
		if s.until.IsZero() {
			end()
		} else if newest.Sub(s.at) <= chartFor {
			if len(line) > 0 && !samples[i-1].until.Equal(s.until) { // it was renewed since the last look
				add(s.at, samples[i-1].until.Sub(s.at))
			}
			add(s.at, s.until.Sub(s.at))
		}
	}
	end()
	return lines
}

func draw(path *strings.Builder, line []point) {
	move := "M"
	for _, p := range line {
		fmt.Fprintf(path, "%s%.1f %.1f", move, p.x, p.y)
		move = "L"
	}
}
