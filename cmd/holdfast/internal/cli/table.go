package cli

import (
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

const gap = 2 // between columns

// widths returns the widths of a table's columns so that the table fits into a terminal. It shortens columns, the widest first. If that is
// not enough, it leaves columns out; their width is 0.
func widths(rows [][columnCount]string, columns int) (w [columnCount]int) {
	for _, row := range append(rows, titles) {
		for i, cell := range row {
			w[i] = max(w[i], text.Width(cell))
		}
	}
	least := [columnCount]int{columnName: 12, columnKind: w[columnKind], columnHolder: 8, columnProcess: 8, columnTTL: w[columnTTL], columnWaiting: w[columnWaiting]}
	for total(w) > columns {
		widest := -1
		for i := range w {
			if w[i] > least[i] && (widest < 0 || w[i] > w[widest]) {
				widest = i
			}
		}
		if widest < 0 && !leaveOut(&w) {
			w[columnName] = max(1, columns)
			break
		}
		if widest >= 0 {
			w[widest]--
		}
	}
	return w
}

// leaveOut leaves out the least important column, but never the name. It returns false if no other column is left.
func leaveOut(w *[columnCount]int) bool {
	for _, column := range []int{columnHolder, columnProcess, columnKind, columnTTL, columnWaiting} {
		if w[column] > 0 {
			w[column] = 0
			return true
		}
	}
	return false
}

func total(w [columnCount]int) (sum int) {
	for _, width := range w {
		if width > 0 {
			sum += width + gap
		}
	}
	return sum - gap
}

// line returns a row of a table as text. Numbers are aligned to the right.
func line(row [columnCount]string, w [columnCount]int) string {
	var b strings.Builder
	for i, cell := range row {
		if w[i] == 0 {
			continue
		}
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		cell = text.Cut(cell, w[i])
		if i == columnTTL || i == columnWaiting {
			b.WriteString(strings.Repeat(" ", w[i]-text.Width(cell)) + cell)
		} else {
			b.WriteString(text.Pad(cell, w[i]))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Styles of a terminal.
const (
	plainStyle = ""
	faint      = "2"
	bold       = "1"
	warn       = "33"   // yellow
	alarm      = "1;31" // bold red
	inverse    = "7"
)

// painter adds styles to text if it is true.
type painter bool

func newPainter(f *os.File) painter {
	_, _, terminal := sizeOf(f)
	return painter(terminal && colours())
}

// colours follows https://no-color.org.
func colours() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

func (p painter) paint(style, s string) string {
	if !p || style == plainStyle {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}
