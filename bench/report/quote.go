package report

import (
	"fmt"
	"strings"
)

// Flaws returns the reasons why no document may quote these results. If there are none, they may be quoted.
func (r *Results) Flaws() (flaws []string) {
	if r.Quick {
		flaws = append(flaws, "a quick run measures nothing")
	}
	switch commit := r.Commit(); {
	case commit == "" || commit == unknownCommit:
		flaws = append(flaws, "it is not known which commit was measured")
	case strings.HasSuffix(commit, dirtyMark):
		flaws = append(flaws, fmt.Sprintf("the tree had changes that are not in commit %s", strings.TrimSuffix(commit, dirtyMark)))
	}
	for i := range r.Workloads {
		flaws = append(flaws, r.Workloads[i].flaws()...)
	}
	return flaws
}

// flaws returns the reasons why no document may quote this workload. A single disturbed repetition is enough: it makes the comparison unfair.
func (w *Workload) flaws() (flaws []string) {
	all, busy, silent := 0, 0, 0
	for _, o := range w.Outcomes {
		for _, f := range o.Repetitions {
			all++
			switch _, known := f["others_cpu_cores"]; {
			case !known:
				silent++
			case f.Disturbed():
				busy++
			}
		}
	}
	if silent > 0 {
		flaws = append(flaws, fmt.Sprintf("%s: it is not known whether the machine was quiet in %d of %d repetitions", w.Name, silent, all))
	}
	if busy > 0 {
		flaws = append(flaws, fmt.Sprintf("%s: other programs used up to %s of a core, more than %s in %d of %d repetitions",
			w.Name, Cores(w.othersBusy()), Cores(quietCores), busy, all))
	}
	return flaws
}

// Commit returns the commit of Holdfast that was measured, in the same form as the function Commit. If the results name no commit, it
// returns "".
func (r *Results) Commit() string {
	for _, v := range r.Versions {
		if v.Name == "holdfast" {
			return v.Version
		}
	}
	return ""
}
