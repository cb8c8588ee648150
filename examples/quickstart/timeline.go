package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// timeline prints one line for each event: elapsed seconds, the party, and what happened.
type timeline struct {
	out   io.Writer
	start time.Time
	color bool // the output is a terminal that wants colors
}

func newTimeline(out io.Writer) *timeline {
	return &timeline{out: out, start: time.Now(), color: wantsColor(out)}
}

// wantsColor reports whether the output is a terminal whose user has not turned colors off (no-color.org).
func wantsColor(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// scene prints the headline of a scene.
func (t *timeline) scene(number, of int, title string) {
	fmt.Fprintln(t.out)
	t.line(fmt.Sprintf("%d/%d", number, of), bold, title)
}

// say prints what a party did or saw.
func (t *timeline) say(who, format string, args ...any) {
	t.line(who, colors[who], fmt.Sprintf(format, args...))
}

func (t *timeline) line(who, color, text string) {
	who = fmt.Sprintf("%-5s", who) // padded before it is colored: escape codes have no width
	if t.color && color != "" {
		who = color + who + plain
	}
	fmt.Fprintf(t.out, "%7.3fs  %s  %s\n", time.Since(t.start).Seconds(), who, text)
}

const (
	plain = "\x1b[0m"
	bold  = "\x1b[1m"
)

// colors has the color of each party's lines.
var colors = map[string]string{
	"A": "\x1b[36m",
	"B": "\x1b[33m",
	"C": "\x1b[35m",
}

// short rounds a duration for readers.
func short(d time.Duration) time.Duration {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond)
	case d < time.Second:
		return d.Round(time.Millisecond)
	default:
		return d.Round(10 * time.Millisecond)
	}
}
