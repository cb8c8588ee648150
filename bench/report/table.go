package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// wideMark follows a median that cannot be trusted because of its spread.
const wideMark = " ~"

// Print writes the workload as a table of medians. For the first figure, the table also shows the lowest and the highest value, and how many times
// better the first contender is.
func (w *Workload) Print(out io.Writer) {
	fmt.Fprintf(out, "\n%s (%s)\n", w.Title, w.Name)
	columns := w.used()
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\t")
	for i, c := range columns {
		fmt.Fprintf(t, "%s\t", c.Title)
		if i == 0 {
			fmt.Fprintf(t, "[spread]\t%s is\t", w.Outcomes[0].Peer)
		}
	}
	fmt.Fprintln(t)
	for i := range w.Outcomes {
		fmt.Fprintln(t, w.row(&w.Outcomes[i], columns))
	}
	_ = t.Flush()
	w.printNotes(out)
}

// used returns the columns that at least one contender has a value for.
func (w *Workload) used() (columns []Figure) {
	for _, c := range Columns(w) {
		for _, o := range w.Outcomes {
			if _, ok := o.Summary[c.Name]; ok {
				columns = append(columns, c)
				break
			}
		}
	}
	if len(columns) == 0 {
		columns = Columns(w)[:1]
	}
	return columns
}

func (w *Workload) row(o *Outcome, columns []Figure) string {
	cells := []string{o.Peer}
	for i, c := range columns {
		s, ok := o.Summary[c.Name]
		text := "-"
		if ok {
			text = c.Unit(s.Median)
		}
		if i == 0 && o.Wide {
			text += wideMark
		}
		cells = append(cells, text)
		if i == 0 {
			spread, ratio := "", ""
			if ok {
				spread = fmt.Sprintf("[%s %s]", c.Unit(s.Least), c.Unit(s.Most))
			}
			if o.Ratio != nil {
				ratio = Ratio(o.Ratio.Median) + " x"
			}
			cells = append(cells, spread, ratio)
		}
	}
	return strings.Join(cells, "\t")
}

func (w *Workload) printNotes(out io.Writer) {
	wide, discarded := false, 0
	for _, o := range w.Outcomes {
		wide, discarded = wide || o.Wide, discarded+o.Discarded
		if text := o.remark(); text != "" {
			fmt.Fprintf(out, "  %s\n", text)
		}
	}
	if wide {
		fmt.Fprintf(out, "  ~ the spread is too wide to trust the median: repeat on a quieter machine\n")
	}
	if discarded > 0 {
		fmt.Fprintf(out, "  %d repetitions were measured again, because other programs used more than %s of a core meanwhile\n", discarded, Cores(quietCores))
	}
	if busy := w.othersBusy(); busy > quietCores {
		fmt.Fprintf(out, "  other programs used %s of a core meanwhile: the machine was not quiet\n", Cores(busy))
	}
}

// remark returns why an outcome has no figures, or an error that occurred.
func (o *Outcome) remark() string {
	switch {
	case o.Refused != "":
		return fmt.Sprintf("%s was not measured (%s)", o.Peer, o.Refused)
	case o.Failed != "":
		return fmt.Sprintf("%s failed: %s", o.Peer, o.Failed)
	case o.Note != "":
		return fmt.Sprintf("%s: %s", o.Peer, o.Note)
	}
	return ""
}

// quietCores is a number of cores. If other programs use more than that during a repetition, they disturb it.
const quietCores = 0.1

// Disturbed reports whether other programs were too busy during a repetition.
func (f Figures) Disturbed() bool { return f["others_cpu_cores"] > quietCores }

// othersBusy returns the largest number of cores that other programs used in a repetition of any contender.
func (w *Workload) othersBusy() (most float64) {
	for _, o := range w.Outcomes {
		for _, f := range o.Repetitions {
			most = max(most, f["others_cpu_cores"])
		}
	}
	return most
}
