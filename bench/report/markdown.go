package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// inBrief lists the figures that go into bench/README.md. The HTML page of a run has all figures.
var inBrief = []string{
	"pairs_per_s", "second_min_per_s", "second_max_per_s", "wait_p50_us", "wait_p99_us", "scripts_per_pair", "client_cpu_us_per_pair", "server_cpu_us_per_pair", "process_share_min", "process_share_max",
	"cpu_cores", "waiting_cpu_cores", "client_cpu_cores", "server_cpu_cores", "scripts_per_10s", "heap_bytes_per_lock", "server_bytes_per_lock", "connections", "lost", "served_per_s", "unserved",
	"idle_longest_ms", "free_longest_ms", "free_stuck", "names", "stuck", "orphaned", "cut_off", "errors",
}

// Markdown writes the tables of bench/README.md.
func (r *Results) Markdown(out io.Writer) {
	fmt.Fprintf(out, "%s, %d cores of %s, %s. `%s`\n", r.Ended.Format("2006-01-02"), r.Machine.Cores, r.Machine.CPU, versionOf(r.Versions, "redis-server"),
		strings.Join(r.Command, " "))
	for i := range r.Workloads {
		r.Workloads[i].markdown(out)
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintf(out, "\nNot measured, because the run was stopped earlier: %s.\n", strings.Join(r.Skipped, ", "))
	}
}

func versionOf(versions []Version, name string) string {
	i := slices.IndexFunc(versions, func(v Version) bool { return v.Name == name })
	if i < 0 {
		return name
	}
	return name + " " + versions[i].Version
}

func (w *Workload) markdown(out io.Writer) {
	columns := slices.DeleteFunc(w.used(), func(c Figure) bool { return !slices.Contains(inBrief, c.Name) })
	fmt.Fprintf(out, "\n**%s** (`%s`)\n\n| |", w.Title, w.Name)
	for i, c := range columns {
		fmt.Fprintf(out, " %s |", c.Title)
		if i == 0 {
			fmt.Fprintf(out, " lowest to highest | %s is |", w.Outcomes[0].Peer)
		}
	}
	fmt.Fprintf(out, "\n|%s\n", strings.Repeat(" --- |", len(columns)+3))
	for i := range w.Outcomes {
		cells := strings.Split(w.row(&w.Outcomes[i], columns), "\t")
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
	for i := range w.Outcomes {
		if text := w.Outcomes[i].remark(); text != "" {
			fmt.Fprintf(out, "\n%s.\n", text)
		}
	}
}

// atAGlance and peersAtAGlance are the rows and columns of the table in the project's README.
var (
	atAGlance = []struct{ workload, figure, what string }{
		{"hot-64", "pairs_per_s", "one hot lock, 64 goroutines, mostly handed on inside the process: pairs/s"},
		{"hot-64", "wait_p99_us", "the same: p99 wait"},
		{"distinct-64", "pairs_per_s", "64 goroutines, a lock each: pairs/s"},
		{"distinct-1000", "pairs_per_s", "1000 goroutines, a lock each: pairs/s"},
		{"free-1", "pairs_per_s", "one goroutine, a free lock: pairs/s"},
		{"linger-1", "pairs_per_s", "the same with `Options.Linger`: pairs/s"},
		{"handover", "wait_p50_us", "hand-over to another process: p50"},
	}
	peersAtAGlance = []string{"holdfast", "redislock", "redislock-auto", "redsync", "rueidislock", "redisson", "redislock-mutex", "sync.Mutex"}
)

// Glance writes the table in the project's README. A figure that is not among the results is left empty.
func (r *Results) Glance(out io.Writer) {
	fmt.Fprintf(out, "| | %s |\n|%s\n", strings.Join(peersAtAGlance, " | "), strings.Repeat(" --- |", len(peersAtAGlance)+1))
	for _, row := range atAGlance {
		fmt.Fprintf(out, "| %s |", row.what)
		for _, peer := range peersAtAGlance {
			fmt.Fprintf(out, " %s |", r.cell(row.workload, row.figure, peer))
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "\n`~`: the repetitions are too far apart to trust the median.\n")
}

// cell returns the median of one figure of one contender in one workload.
func (r *Results) cell(name, figure, peer string) string {
	w := slices.IndexFunc(r.Workloads, func(w Workload) bool { return w.Name == name })
	if w < 0 {
		return ""
	}
	columns := Columns(&r.Workloads[w])
	column := slices.IndexFunc(columns, func(c Figure) bool { return c.Name == figure })
	outcome := slices.IndexFunc(r.Workloads[w].Outcomes, func(o Outcome) bool { return o.Peer == peer })
	if column < 0 || outcome < 0 {
		return ""
	}
	s, ok := r.Workloads[w].Outcomes[outcome].Summary[figure]
	if !ok {
		return ""
	}
	text := columns[column].Unit(s.Median)
	if s.Wide() {
		text += wideMark
	}
	return text
}
