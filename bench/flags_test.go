package main

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/workload"
)

func TestParse_BadFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-nosuch"}, {"argument"}, {"-only", "nosuch"}, {"-peers", "nosuch"}, {"-peers", "holdfast,nosuch"}, {"-only", "free-1,free-["}, {"-reps", "-1"}, {"-window", "x"},
		{"-out", "results.txt"}, {"-check", "x.json", "-quick"},
	} {
		if _, err := parse(args); !errors.Is(err, errUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestParse_PatternsChoose(t *testing.T) {
	f, err := parse([]string{"-only", "free-1, hot-*p-0ms", "-peers", "holdfast"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.options.Workloads); n != 4 {
		t.Errorf("%d workloads, want free-1 and the three over processes", n)
	}
	if len(f.options.Peers) != 1 || f.options.Peers[0].Name != "holdfast" {
		t.Errorf("contenders %v", f.options.Peers)
	}
}

func TestWorkloads_NameContendersThatExist(t *testing.T) {
	taken := map[string]bool{}
	for _, w := range workload.All {
		if taken[w.Name] || w.Title == "" || w.About == "" {
			t.Errorf("%s: its name is taken, or it has no title or text", w.Name)
		}
		taken[w.Name] = true
		if w.Peers[0] != "holdfast" {
			t.Errorf("%s: the first contender, to which ratios are relative, is %s", w.Name, w.Peers[0])
		}
		for _, name := range w.Peers {
			if p := peer.ByName(name); p == nil || !p.Can(w.Lock) {
				t.Errorf("%s: there is no %s with a lock that is %s", w.Name, name, w.Lock)
			}
		}
	}
}

func TestContenders_SayWhatTheyAre(t *testing.T) {
	for _, p := range peer.All {
		if p.About == "" || p.Source == "" || p.Role == "" || len(p.Kinds) == 0 {
			t.Errorf("%s: a description is missing", p.Name)
		}
	}
}
