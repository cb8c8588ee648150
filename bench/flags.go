package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/run"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// flags holds the parsed command line.
type flags struct {
	options run.Options
	out     string
	page    string
	tables  string
	against string
	list    bool
}

// errUsage marks a mistake on the command line.
var errUsage = errors.New("see go run . -help")

func exitCode(err error) int {
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

const usage = `usage: go run . [flags]

Measures Holdfast side by side with other locks, and writes results/<time>.json and .html. It starts its own redis-server.

`

func parse(args []string) (*flags, error) {
	f := &flags{}
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	only := set.String("only", "", "workloads to run, names or patterns separated by commas: -only 'free-1,hot-*'")
	peers := set.String("peers", "", "contenders that take part, names or patterns separated by commas: -peers 'holdfast,red*'")
	set.BoolVar(&f.options.Quick, "quick", false, "run every workload for a fraction of a second: shows that everything works, measures nothing")
	set.StringVar(&f.options.Redis, "redis", "", "host:port of a running Redis to use, instead of starting one; its keys bench* are written and removed")
	set.IntVar(&f.options.Repetitions, "reps", 0, "how often each contender is measured in each workload; default 5, with -quick 1")
	set.DurationVar(&f.options.Window, "window", 0, "how long each measurement takes; default 2s, with -quick 60ms; some workloads take longer")
	set.StringVar(&f.out, "out", "", "file for the results, *.json; the page is written next to it")
	set.StringVar(&f.page, "page", "", "do not run: write the page of this file of results again")
	set.StringVar(&f.tables, "tables", "", "do not run: print the tables of this file of results in the form of README.md")
	set.StringVar(&f.against, "check", "", "compare the ratios of some workloads with this file of results; fail if one is a quarter worse in three runs")
	set.BoolVar(&f.list, "list", false, "do not run: list workloads and contenders")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Print(usage)
			set.SetOutput(os.Stdout)
			set.PrintDefaults()
			os.Exit(0)
		}
		return nil, fmt.Errorf("%w: %w", err, errUsage)
	}
	return f, errors.Join(f.complete(set), f.choose(*only, *peers))
}

// complete rejects flags that make no sense and sets the defaults of flags that were not given.
func (f *flags) complete(set *flag.FlagSet) error {
	o := &f.options
	if set.NArg() > 0 {
		return fmt.Errorf("there are no arguments, but %q was given: %w", set.Arg(0), errUsage)
	}
	if o.Repetitions < 0 || o.Window < 0 {
		return fmt.Errorf("-reps and -window must be more than 0: %w", errUsage)
	}
	for _, file := range []string{f.out, f.page, f.tables, f.against} {
		if file != "" && !strings.HasSuffix(file, ".json") {
			return fmt.Errorf("%q must end in .json: %w", file, errUsage)
		}
	}
	if f.against != "" && o.Quick {
		return fmt.Errorf("a quick run measures nothing that -check could compare: %w", errUsage)
	}
	reps, window := 5, 2*time.Second
	if o.Quick {
		reps, window = 1, 60*time.Millisecond
	}
	if o.Repetitions == 0 {
		o.Repetitions = reps
	}
	if o.Window == 0 {
		o.Window = window
	}
	o.Progress = os.Stderr
	return nil
}

// choose selects the workloads and the contenders by name or pattern.
func (f *flags) choose(only, peers string) (err error) {
	o := &f.options
	var noWorkload, noPeer error
	o.Workloads, noWorkload = chosen(workload.All, only, "workload", func(w workload.Workload) string { return w.Name })
	o.Peers, noPeer = chosen(peer.All, peers, "contender", func(p *peer.Peer) string { return p.Name })
	return errors.Join(noWorkload, noPeer)
}

// chosen returns the elements of the slice `all` whose names match one of the patterns. Without patterns it returns the whole slice. A pattern that
// matches no name is an error.
func chosen[T any](all []T, patterns, what string, name func(T) string) (some []T, err error) {
	if patterns == "" {
		return all, nil
	}
	matched := make([]bool, len(all))
	for _, pattern := range strings.Split(patterns, ",") {
		found := false
		for i, one := range all {
			if ok, err := path.Match(strings.TrimSpace(pattern), name(one)); ok && err == nil {
				matched[i], found = true, true
			}
		}
		if !found {
			err = errors.Join(err, fmt.Errorf("no %s is called %q; go run . -list names them: %w", what, pattern, errUsage))
		}
	}
	for i, one := range all {
		if matched[i] {
			some = append(some, one)
		}
	}
	return some, err
}

func pageOf(file string) string { return strings.TrimSuffix(file, ".json") + ".html" }

func list(out io.Writer) {
	fmt.Fprintln(out, "workloads")
	for _, w := range workload.All {
		fmt.Fprintf(out, "  %-17s %s\n", w.Name, w.Title)
	}
	fmt.Fprintln(out, "\ncontenders")
	for _, p := range peer.All {
		fmt.Fprintf(out, "  %-19s %s\n", p.Name, p.About)
	}
}
