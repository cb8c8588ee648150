package run

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast/bench/load"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// repetition is the result of one measured stretch of one contender.
type repetition struct {
	figures report.Figures
	waits   *hdrhistogram.Histogram // nil if the shape has none
	note    string
}

// measure does one repetition.
func (c *contender) measure(window time.Duration) (repetition, error) {
	switch c.w.Shape {
	case workload.Handover:
		return c.measureHandover(window)
	case workload.Holding:
		return c.measureHolding(window)
	case workload.Pending:
		return c.measurePending(window)
	case workload.Cut:
		return c.measureCut(window)
	}
	return c.measurePairs(window)
}

func (c *contender) measurePairs(window time.Duration) (repetition, error) {
	before, own, err := c.read()
	if err != nil {
		return repetition{}, err
	}
	samples, err := c.drive(window, nil)
	if err != nil {
		return repetition{}, err
	}
	after, _, err := c.read()
	if err != nil {
		return repetition{}, err
	}
	r, err := c.pairFigures(samples, after.since(before, own))
	if err != nil {
		return repetition{}, err
	}
	if c.w.Naming == workload.Fresh && len(samples) == 1 {
		all := float64(max(samples[0].All, 1))
		r.figures["names"] = all
		setKnown(r.figures, "heap_bytes_per_name", samples[0].Heap, all)
		if c.onRedis() {
			r.figures["keys_left"] = float64(c.run.redis.client.DBSize(context.Background()).Val())
		}
	}
	return r, nil
}

// setKnown sets a figure to amount/by. A negative amount means that the figure is unknown; setKnown then does nothing. For example, the growth of a
// heap is negative if the measured objects took less memory than was freed elsewhere.
func setKnown(f report.Figures, name string, amount, by float64) {
	if amount >= 0 {
		f[name] = amount / by
	}
}

func (c *contender) pairFigures(samples []*load.Sample, server counters) (repetition, error) {
	f, waits := report.Figures{"stuck": 0, "orphaned": 0, "cut_off": 0}, load.NewHistogram()
	var pairs, all, elapsed, cpu, allocs float64
	var clients, workers []float64
	note := ""
	for _, s := range samples {
		h, err := load.Decode(s.Waits)
		if err != nil {
			return repetition{}, err
		}
		waits.Merge(h)
		pairs, all, cpu = pairs+float64(s.Pairs), all+float64(s.All), cpu+float64(s.CPU)
		elapsed = max(elapsed, float64(s.Elapsed))
		if allocs >= 0 && s.Allocs >= 0 {
			allocs += s.Allocs
		} else {
			allocs = -1
		}
		switch {
		case c.slow:
			f["cut_off"] += float64(s.Stuck)
		case c.orphan && c.w.Naming == workload.Hot:
			f["orphaned"] += float64(s.Stuck)
		default:
			f["stuck"] += float64(s.Stuck)
		}
		f["idle_longest_ms"] = max(f["idle_longest_ms"], float64(s.Idle)/1e6) // exact: the workloads that show this figure have one process
		f["errors"] += float64(s.Errors)
		f["overlaps"] += float64(s.Overlaps)
		if s.Error != "" {
			note = s.Error
		}
		clients, workers = append(clients, floats(s.PerClient)...), append(workers, floats(s.PerWorker)...)
	}
	seconds, all := elapsed/1e9, max(all, 1)
	f["pairs_per_s"] = pairs / seconds
	f["client_cpu_us_per_pair"] = cpu / 1e3 / max(pairs, 1)
	setKnown(f, "allocs_per_pair", allocs, all)
	c.serverFigures(f, server, all)
	f["others_cpu_cores"] = server.othersCores()
	waitFigures(f, waits)
	secondFigures(f, samples)
	if c.w.Visits == 0 {
		shareFigures(f, "process", clients)
		shareFigures(f, "goroutine", workers)
	}
	return repetition{f, waits, note}, nil
}

// serverFigures sets the figures of the server, per pair.
func (c *contender) serverFigures(f report.Figures, server counters, pairs float64) {
	if !c.hasServer() {
		return
	}
	f["server_cpu_us_per_pair"] = float64(server.cpu) / 1e3 / pairs
	if c.onRedis() {
		f["scripts_per_pair"] = server.scripts / pairs
		f["commands_per_pair"] = server.commands / pairs
		f["bytes_in_per_pair"] = server.in / pairs
		f["bytes_out_per_pair"] = server.out / pairs
	}
}

func waitFigures(f report.Figures, waits *hdrhistogram.Histogram) {
	us := func(ns float64) float64 { return ns / 1e3 }
	f["wait_mean_us"] = us(waits.Mean())
	f["wait_p50_us"] = us(float64(waits.ValueAtQuantile(50)))
	f["wait_p99_us"] = us(float64(waits.ValueAtQuantile(99)))
	f["wait_p999_us"] = us(float64(waits.ValueAtQuantile(99.9)))
	f["wait_max_us"] = us(float64(waits.Max()))
}

// secondFigures sets two figures: the rate of all processes together in the slowest second of the window, and in the fastest. If the window has fewer
// than two whole seconds, it sets neither.
func secondFigures(f report.Figures, samples []*load.Sample) {
	whole := len(samples[0].Seconds)
	for _, s := range samples {
		whole = min(whole, len(s.Seconds))
	}
	if whole < 2 {
		return
	}
	for i := range whole {
		rate := 0.0
		for _, s := range samples {
			rate += s.Seconds[i]
		}
		if i == 0 {
			f["second_min_per_s"], f["second_max_per_s"] = rate, rate
		}
		f["second_min_per_s"], f["second_max_per_s"] = min(f["second_min_per_s"], rate), max(f["second_max_per_s"], rate)
	}
}

// shareFigures sets two figures: the smallest and the largest number of pairs of one process or goroutine, each divided by the average.
func shareFigures(f report.Figures, who string, pairs []float64) {
	if len(pairs) < 2 {
		return
	}
	total, least, most := 0.0, pairs[0], pairs[0]
	for _, n := range pairs {
		total, least, most = total+n, min(least, n), max(most, n)
	}
	if total > 0 {
		fair := total / float64(len(pairs))
		f[who+"_share_min"], f[who+"_share_max"] = least/fair, most/fair
	}
}

func floats(values []int64) (out []float64) {
	for _, v := range values {
		out = append(out, float64(v))
	}
	return out
}
