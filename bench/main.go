// Bench compares Holdfast with other ways to lock, on the same work in one run. See README.md.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/run"
)

func main() {
	if run.Role() {
		return
	}
	f, err := parse(os.Args[1:])
	if err == nil {
		err = f.do()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitCode(err))
	}
}

func (f *flags) do() error {
	switch {
	case f.list:
		list(os.Stdout)
		return nil
	case f.page != "":
		results, err := report.Read(f.page)
		if err != nil {
			return err
		}
		return results.WritePage(pageOf(f.page))
	case f.tables != "":
		results, err := report.Read(f.tables)
		if err != nil {
			return err
		}
		results.Markdown(os.Stdout)
		return nil
	case f.against != "":
		return f.compare()
	}
	if f.isReference() && !report.Clean() {
		return fmt.Errorf("%s is to be committed, so it must measure a commit, but this tree has changes", reference)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	f.options.Stop = stop
	results, err := run.Measure(f.options)
	if err != nil {
		return err
	}
	file, flaws := f.out, results.Flaws()
	if file == "" || f.isReference() && len(flaws) > 0 {
		file = filepath.Join("results", results.Began.Format("2006-01-02-150405")+".json")
	}
	if err := results.Write(file); err != nil {
		return err
	}
	if err := results.WritePage(pageOf(file)); err != nil {
		return err
	}
	fmt.Printf("\nresults: %s\npage:    %s\n", file, pageOf(file))
	if len(flaws) > 0 {
		fmt.Printf("\nDo not quote these results:\n  %s\n", strings.Join(flaws, "\n  "))
	}
	return results.Err()
}

// reference is the file of results that the documents quote. `make bench-check` compares new results with it.
const reference = "results/reference.json"

// isReference reports whether the results are meant to be committed. Results with flaws go into another file.
func (f *flags) isReference() bool { return filepath.ToSlash(filepath.Clean(f.out)) == reference }
