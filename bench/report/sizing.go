package report

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// sized lists the rows about operations in doc/sizing.md.
var sized = []struct{ workload, what string }{
	{"free-1", "a free lock, one at a time"},
	{"distinct-64", "free locks, 64 goroutines of a process"},
	{"distinct-1000", "free locks, 1000 goroutines of a process"},
	{"linger-1", "one goroutine, the same lock again and again, `Options.Linger`"},
	{"hot-64", "one hot lock, handed on inside a process"},
	{"hot-8p-1ms", "one hot lock, 8 processes with 8 goroutines, 1 ms sections"},
	{"fair", "fair lock, 4 processes with 4 goroutines"},
	{"semaphore", "semaphore, 8 permits, 4 processes with 8 goroutines, 1 ms sections"},
}

// fullShare is the share of a core that Redis may use for scripts before a second server should be considered.
const fullShare = 0.7

// asGoodAsNothing is in microseconds. If the server needs less CPU time than that for an acquire and its release, Sizing shows the work as costing
// next to nothing: the clients reach their own limits first.
const asGoodAsNothing = 1

// Sizing writes the tables of doc/sizing.md.
func (r *Results) Sizing(out io.Writer) {
	fmt.Fprintln(out, "| work, for each acquire with its release | scripts | commands | bytes in | bytes out | CPU of Redis | 1 000 per second cost | 70 % of a core carries |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, row := range sized {
		f := r.medians(row.workload)
		cpu := f["server_cpu_us_per_pair"]
		if cpu == 0 {
			continue
		}
		if cpu < asGoodAsNothing {
			fmt.Fprintf(out, "| %s | next to none | | | | less than 1 us | | more than its clients can use |\n", row.what)
			continue
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s of a core | %s per second |\n", row.what, Ratio(rough(f["scripts_per_pair"])),
			Ratio(rough(f["commands_per_pair"])), Count(rough(f["bytes_in_per_pair"])), Count(rough(f["bytes_out_per_pair"])), Micros(rough(cpu)),
			Cores(cpu/1000), Count(rough(fullShare*1e6/cpu)))
	}
	const held = 100_000
	f := r.medians(fmt.Sprintf("held-%d", held))
	if f == nil {
		return
	}
	fmt.Fprintln(out, "\n| held locks, leases of 30 s | each | 100 000 |\n| --- | --- | --- |")
	for _, row := range []struct{ figure, what string }{{"server_bytes_per_lock", "memory of Redis"}, {"heap_bytes_per_lock", "memory of the process"}} {
		fmt.Fprintf(out, "| %s | %s | %s MB |\n", row.what, Bytes(rough(f[row.figure])), Count(rough(f[row.figure]*held/1e6)))
	}
	fmt.Fprintf(out, "| scripts | | %s per second |\n", Count(rough(f["scripts_per_10s"]/10)))
	fmt.Fprintf(out, "| bytes | | %s MB per second |\n", Ratio(rough(f["bytes_per_10s"]/1e7)))
	fmt.Fprintf(out, "| CPU of Redis | | %s of a core |\n| CPU of the process | | %s of a core |\n", Cores(f["server_cpu_cores"]), Cores(f["client_cpu_cores"]))
}

// medians returns Holdfast's medians in one workload.
func (r *Results) medians(name string) Figures {
	i := slices.IndexFunc(r.Workloads, func(w Workload) bool { return w.Name == name })
	if i < 0 {
		return nil
	}
	outcome := r.Workloads[i].Outcome("holdfast")
	if outcome == nil || outcome.Failed != "" {
		return nil
	}
	all := Figures{}
	for figure, spread := range outcome.Summary {
		all[figure] = spread.Median
	}
	return all
}

// rough rounds to two digits: more would seem too precise for a decision about servers.
func rough(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-1)
	return math.Round(v/unit) * unit
}
