package report

import (
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/bench/workload"
)

// Figure is one column.
type Figure struct {
	Name  string
	Title string
	Unit  Unit
}

// Unit formats a figure.
type Unit func(value float64) string

// Columns returns the figures that a workload's table shows, the primary one first.
func Columns(w *Workload) []Figure {
	switch w.Shape {
	case workload.Handover:
		return []Figure{
			{"wait_p50_us", "p50", Micros}, {"wait_p99_us", "p99", Micros}, {"wait_p999_us", "p99.9", Micros}, {"wait_max_us", "max", Micros},
			{"scripts_per_pair", "scripts", Ratio}, {"client_cpu_us_per_pair", "client us", Ratio}, {"server_cpu_us_per_pair", "server us", Ratio},
			{"rounds", "rounds", Count}, {"stuck", "stuck", Count},
		}
	case workload.Holding:
		return []Figure{
			{"cpu_cores", "CPU", Cores}, {"client_cpu_cores", "client", Cores}, {"server_cpu_cores", "server", Cores},
			{"scripts_per_10s", "scripts/10 s", Count}, {"heap_bytes_per_lock", "heap each", Bytes},
			{"server_bytes_per_lock", "server each", Bytes}, {"connections", "connections", Count}, {"bytes_per_10s", "B/10 s", Count},
			{"acquired_per_s", "acquired/s", Count}, {"released_per_s", "released/s", Count}, {"lost", "lost", Count},
		}
	case workload.Pending:
		return []Figure{
			{"waiting_cpu_cores", "CPU", Cores}, {"client_cpu_cores", "client", Cores}, {"server_cpu_cores", "server", Cores},
			{"scripts_per_10s", "scripts/10 s", Count}, {"heap_bytes_per_lock", "heap each", Bytes},
			{"connections", "connections", Count}, {"served_per_s", "served/s", Count}, {"unserved", "not served", Count}, {"errors", "errors", Count},
		}
	}
	columns := []Figure{
		{"pairs_per_s", "pairs/s", Count}, {"second_min_per_s", "slowest second", Count}, {"second_max_per_s", "fastest", Count}, {"wait_p50_us", "p50", Micros}, {"wait_p99_us", "p99", Micros}, {"wait_p999_us", "p99.9", Micros},
		{"wait_max_us", "max", Micros}, {"scripts_per_pair", "scripts", Ratio}, {"commands_per_pair", "commands", Ratio},
		{"bytes_in_per_pair", "B in", Count}, {"bytes_out_per_pair", "B out", Count},
		{"client_cpu_us_per_pair", "client us", Ratio}, {"server_cpu_us_per_pair", "server us", Ratio}, {"allocs_per_pair", "allocs", Count},
	}
	if w.Processes*w.Clients > 1 {
		columns = append(columns, Figure{"process_share_min", "least share", Ratio}, Figure{"process_share_max", "most", Ratio})
	} else if w.Goroutines > 1 && w.Naming == workload.Hot {
		columns = append(columns, Figure{"goroutine_share_min", "least share", Ratio}, Figure{"goroutine_share_max", "most", Ratio})
	}
	switch {
	case w.Naming == workload.Fresh:
		columns = append(columns, Figure{"names", "names", Count}, Figure{"heap_bytes_per_name", "heap left each", Bytes}, Figure{"keys_left", "keys left", Count})
	case w.Shape == workload.Cut:
		columns = append([]Figure{{"idle_longest_ms", "longest idle", Millis}, {"free_longest_ms", "longest free", Millis}, {"free_stuck", "free > 5 s", Count}, {"killed", "cuts", Count}}, columns...)
	}
	return append(columns, Figure{"stuck", "stuck", Count}, Figure{"orphaned", "orphaned", Count}, Figure{"cut_off", "cut off", Count}, Figure{"errors", "errors", Count})
}

// The units.

// Count formats a number with its digits in groups of three. A number below 10 that is not whole has two decimals; any other is rounded.
func Count(v float64) string {
	if math.Abs(v) < 10 && v != math.Trunc(v) {
		return fmt.Sprintf("%.2f", v)
	}
	text := fmt.Sprintf("%.0f", math.Abs(v))
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	if v < 0 {
		return "-" + text
	}
	return text
}

// Ratio formats a number with three digits. Numbers below 0.1 get two significant digits; numbers from 100 on are formatted by Count.
func Ratio(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.Abs(v) >= 100:
		return Count(v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	case math.Abs(v) < 0.1:
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Cores formats a share of a core in percent.
func Cores(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// Bytes formats a number of bytes.
func Bytes(v float64) string {
	if v >= 10_000 {
		return Ratio(v/1000) + " kB"
	}
	return Count(v) + " B"
}

// Micros formats a duration given in microseconds.
func Micros(v float64) string { return Duration(time.Duration(v * 1e3)) }

// Millis formats a duration given in milliseconds.
func Millis(v float64) string { return Duration(time.Duration(v * 1e6)) }

// Duration formats a duration with a unit. Ratio formats the number.
func Duration(d time.Duration) string {
	switch {
	case d >= time.Second:
		return Ratio(d.Seconds()) + " s"
	case d >= time.Millisecond:
		return Ratio(float64(d)/1e6) + " ms"
	case d >= time.Microsecond:
		return Ratio(float64(d)/1e3) + " us"
	}
	return Ratio(float64(d)) + " ns"
}
