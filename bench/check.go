package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/run"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// tries is the number of runs in which a ratio must be worse than the recorded one before the check fails.
const tries = 3

// compare measures the guarded workloads, up to `tries` times. It fails if a ratio is worse than the recorded one (see report.Worse) in every run.
// Each run after the first measures only the workloads with a ratio that was worse before.
func (f *flags) compare() error {
	recorded, err := report.Read(f.against)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no %s to compare with: make it with go run . -out %s on a quiet machine, and commit it", f.against, f.against)
	case err != nil:
		return err
	case recorded.Quick:
		return fmt.Errorf("%s has the results of a quick run, which measures nothing", f.against)
	}
	options := f.options
	options.Workloads = slices.DeleteFunc(slices.Clone(options.Workloads), func(w workload.Workload) bool { return !w.Guarded })
	if len(options.Workloads) == 0 {
		return fmt.Errorf("-check compares none of the chosen workloads: %w", errUsage)
	}
	var worse map[string]string
	for n := range tries {
		results, err := run.Measure(options)
		if err != nil {
			return err
		}
		found := report.Worse(recorded, results)
		if n > 0 {
			maps.DeleteFunc(found, func(key, _ string) bool { return worse[key] == "" })
		}
		worse = found
		if len(worse) == 0 {
			fmt.Fprintf(os.Stderr, "\nno ratio is more than a quarter below those of %s\n", f.against)
			return nil
		}
		fmt.Fprintf(os.Stderr, "\nrun %d of %d, more than a quarter below %s:\n%s\n", n+1, tries, f.against, lines(worse))
		options.Workloads = slices.DeleteFunc(options.Workloads, func(w workload.Workload) bool { return !concerns(worse, w.Name) })
	}
	return fmt.Errorf("worse in %d runs:\n%s", tries, lines(worse))
}

func lines(worse map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(worse)) {
		all = append(all, "  "+key+": "+worse[key])
	}
	return strings.Join(all, "\n")
}

func concerns(worse map[string]string, name string) bool {
	for key := range worse {
		if key == name || strings.HasPrefix(key, name+" ") {
			return true
		}
	}
	return false
}
