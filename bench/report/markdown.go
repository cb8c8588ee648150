package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// inBrief are the figures that go into the README; the page has all.
var inBrief = []string{
	"pairs_per_s", "wait_p50_us", "wait_p99_us", "scripts_per_pair", "client_cpu_us_per_pair", "server_cpu_us_per_pair", "process_share_min", "process_share_max",
	"cpu_cores", "scripts_per_10s", "heap_bytes_per_lock", "lost", "idle_longest_ms", "free_longest_ms", "free_stuck", "stuck",
}

// Markdown writes the workloads as the README has them.
func (r *Results) Markdown(out io.Writer) {
	fmt.Fprintf(out, "%s, %d cores of %s, %s. `%s`\n", r.Ended.Format("2006-01-02"), r.Machine.Cores, r.Machine.CPU, versionOf(r.Versions, "redis-server"),
		strings.Join(r.Command, " "))
	for i := range r.Workloads {
		r.Workloads[i].markdown(out)
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
	if busy := w.othersBusy(); busy > quietCores {
		fmt.Fprintf(out, "\nOthers used %s of a core meanwhile.\n", Cores(busy))
	}
}
