// Bench measures Holdfast side by side with everything else that a Go service could lock with, on the same work in one run: see
// README.md.
package main

import (
	"fmt"
	"os"
	"path/filepath"

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
	results, err := run.Measure(f.options)
	if err != nil {
		return err
	}
	file := f.out
	if file == "" {
		file = filepath.Join("results", results.Began.Format("2006-01-02-150405")+".json")
	}
	if err := results.Write(file); err != nil {
		return err
	}
	if err := results.WritePage(pageOf(file)); err != nil {
		return err
	}
	fmt.Printf("\nresults: %s\npage:    %s\n", file, pageOf(file))
	return results.Err()
}
