package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

// screen returns the lines that the terminal shows.
func (v *topView) screen(columns, rows int, p painter) []string {
	body := max(1, rows-3)
	var lines []string
	switch {
	case v.help:
		lines = topHelp(p)
	case v.open:
		lines = v.scroll(v.lockLines(columns, p), body)
	default:
		lines = v.listLines(columns, body, p)
	}
	lines = lines[:min(len(lines), body)]
	for len(lines) < body {
		lines = append(lines, "")
	}
	all := append([]string{v.head(columns, p)}, lines...)
	return append(all, v.state(columns, p), v.foot(columns, p))[:min(rows, body+3)]
}

// head returns the first line: the server, the number of locks, and the time of the look.
func (v *topView) head(columns int, p painter) string {
	const name = "holdfast top"
	left, right := "  "+text.Show(v.server), "looking …"
	if v.last.at.IsZero() {
		if v.err != "" {
			right = "no answer"
		}
	} else {
		waiting, contended := 0, 0
		for _, e := range v.last.locks {
			if waiting += e.Waiting; e.Waiting > 0 {
				contended++
			}
		}
		more := ""
		if v.last.more {
			more = "more than "
		}
		left += fmt.Sprintf("  %s%d locks, %d contended, %d waiting", more, len(v.last.locks), contended, waiting)
		right = v.last.at.Format("15:04:05")
	}
	if v.open {
		right = v.oneAt.Format("15:04:05")
	}
	if v.paused {
		right = "paused, " + right
	}
	left = text.Cut(left, max(0, columns-len(name)-len(right)-2))
	space := max(0, columns-len(name)-text.Width(left)-text.Width(right))
	return p.paint(bold, name) + left + strings.Repeat(" ", space) + right
}

// noMark is written before each row of the table except the selected row. The selected row has a mark, so that it stands out even without colours.
const noMark = "  "

// listLines returns the table of locks.
func (v *topView) listLines(columns, body int, p painter) []string {
	rows := v.rows()
	v.page = max(1, body-1)
	if len(rows) == 0 {
		return v.emptyLines(p)
	}
	at := v.at(rows)
	if at < 0 { // the selected lock is gone: select the lock that is now in its place
		at = min(v.row, len(rows)-1)
		v.selected = rows[at].Name
	}
	v.row = at
	v.first = min(max(v.first, at-v.page+1, 0), at, max(0, len(rows)-v.page))
	shown := rows[v.first:min(len(rows), v.first+v.page)]
	table := make([][columnCount]string, len(shown))
	for i, e := range shown {
		table[i] = cells(e, true)
	}
	w := widths(table, columns-len(noMark))
	w[columnName] += max(0, columns-len(noMark)-total(w))
	lines := []string{p.paint(faint, noMark+line(titles, w))}
	for i, e := range shown {
		style, row := styleOf(e), noMark+line(table[i], w)
		if e.Name == v.selected {
			style, row = inverse, text.Pad("> "+line(table[i], w), columns)
		}
		lines = append(lines, p.paint(style, row))
	}
	return lines
}

func (v *topView) emptyLines(p painter) []string {
	switch {
	case v.last.at.IsZero():
		return nil
	case v.filter != "":
		return []string{"", p.paint(faint, "no lock matches "+text.Show(v.filter)+"; Esc shows all")}
	case v.contended:
		return []string{"", p.paint(faint, "nobody waits for a lock")}
	}
	return []string{"", p.paint(faint, "no locks are in use")}
}

// lockLines is everything about one lock.
func (v *topView) lockLines(columns int, p painter) []string {
	renewed := ""
	switch watched := time.Since(v.since); {
	case len(v.one.Holders) == 0 || v.one.TTL < 0:
	case !v.renewed.IsZero():
		renewed = fmt.Sprintf("yes, %.0fs ago", time.Since(v.renewed).Seconds())
	default:
		renewed = notRenewed(watched.Round(time.Second))
	}
	var b bytes.Buffer
	describe(&b, painter(false), v.one, renewed)
	lines := []string{""}
	for property := range strings.Lines(b.String()) {
		title, value := property[:titleWidth+1], strings.TrimSuffix(property[titleWidth+1:], "\n")
		for _, part := range fold(value, columns-len(title)) {
			lines = append(lines, p.paint(faint, title)+part)
			title = strings.Repeat(" ", len(title))
		}
	}
	return lines
}

// scroll returns the lines of a lock's page, starting with the first visible line.
func (v *topView) scroll(lines []string, body int) []string {
	v.page, v.long = body, len(lines) > body
	v.line = min(max(v.line, 0), max(0, len(lines)-body))
	return lines[v.line:]
}

// fold breaks a list at its commas into lines that fit.
func fold(list string, columns int) []string {
	var lines []string
	line := ""
	for _, part := range strings.SplitAfter(list, ", ") {
		if line != "" && text.Width(line+part) > columns+1 {
			lines, line = append(lines, line), ""
		}
		line += part
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = text.Cut(lines[i], columns)
	}
	return lines
}

// state returns the line above the foot: a question, the filter, an error, or a note.
func (v *topView) state(columns int, p painter) string {
	switch {
	case v.asking:
		return p.paint(alarm, text.Cut("Free "+text.Show(v.asked.Name)+" by force? Its holder keeps working until it notices. [y/N]", columns))
	case v.typing:
		return text.Cut("/"+v.filter+"▏", columns)
	case v.err != "":
		since := time.Since(v.failing).Round(time.Second)
		return p.paint(alarm, text.Cut(fmt.Sprintf("no answer for %s: %s", since, v.err), columns))
	case v.note != "":
		return p.paint(bold, text.Cut(v.note, columns))
	case v.filter != "" && !v.open:
		return text.Cut(fmt.Sprintf("filter %s: %d locks", text.Show(v.filter), len(v.rows())), columns)
	}
	return ""
}

// foot returns the last line, which names the keys.
func (v *topView) foot(columns int, p painter) string {
	keys := []string{"q quit", "↑↓ select", "Enter show", "/ filter", "s sort: " + topOrders[v.order].name, "p pause", "f free", "? help"}
	switch {
	case v.help:
		keys = []string{"any key: back"}
	case v.open:
		keys = []string{"q quit", "Esc back", "p pause", "f free", "? help"}
		if v.long {
			keys = slices.Insert(keys, 2, "↑↓ scroll")
		}
	case v.typing:
		keys = []string{"Enter keep", "Esc all locks"}
	}
	if v.paused {
		for i := range keys {
			keys[i] = strings.Replace(keys[i], "p pause", "p resume", 1)
		}
	}
	return p.paint(faint, text.Cut(strings.Join(keys, "   "), columns))
}

func topHelp(p painter) []string {
	lines := []string{""}
	for _, k := range [][2]string{
		{"↑ ↓ j k", "select a lock; also page up, page down, home, end"},
		{"Enter", "show the selected lock alone; the keys above scroll, Esc goes back"},
		{"/", "show only locks whose name, kind, holder or process contains a text; Esc shows all"},
		{"s", "sort by waiters, time to live, name"},
		{"f", "free the selected lock by force, after asking"},
		{"p", "pause, or resume"},
		{"q", "quit"},
	} {
		lines = append(lines, p.paint(bold, text.Pad(k[0], 9))+k[1])
	}
	return append(lines, "",
		"TTL is the time until Redis frees a lock unless its holder renews it. Locks with waiters are yellow.")
}
