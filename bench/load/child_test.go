package load

import (
	"encoding/json"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// talk runs a child and returns its answers to orders, without progress reports.
func talk(t *testing.T, orders ...Order) (answers []Report) {
	t.Helper()
	in, toChild := io.Pipe()
	fromChild, out := io.Pipe()
	go func() {
		_ = Child(in, out)
		_ = out.Close()
	}()
	t.Cleanup(func() { _ = toChild.Close() })
	reports := json.NewDecoder(fromChild)
	for _, o := range orders {
		if err := json.NewEncoder(toChild).Encode(o); err != nil {
			t.Fatal(err)
		}
		for {
			var r Report
			if err := reports.Decode(&r); err != nil {
				t.Fatal(err)
			}
			if r.Event != Progress {
				answers = append(answers, r)
				break
			}
		}
	}
	return answers
}

func TestChild_CountsThePairsOfAllGoroutines(t *testing.T) {
	w := workload.Workload{Shape: workload.Pairs, Clients: 1, Goroutines: 4, Naming: workload.Hot, Lock: peer.Exclusive}
	got := talk(t,
		Order{Do: Open, Peer: "sync.Mutex", Workload: &w},
		Order{Do: Run, Start: time.Now().UnixNano(), Window: int64(20 * time.Millisecond)},
		Order{Do: Close})
	if got[0].Event != Opened || got[1].Event != Done || got[2].Event != Closed {
		t.Fatalf("answers %+v", got)
	}
	s := got[1].Sample
	var total int64
	for _, n := range s.PerWorker {
		total += n
	}
	h, err := Decode(s.Waits)
	if err != nil {
		t.Fatal(err)
	}
	if s.Pairs == 0 || s.Pairs != total || s.All < s.Pairs || h.TotalCount() != s.All || s.Overlaps != 0 || s.Stuck != 0 || s.Errors != 0 {
		t.Errorf("%d pairs, %d of the workers, %d with late ones, %d waits, overlaps %d, stuck %d, errors %d",
			s.Pairs, total, s.All, h.TotalCount(), s.Overlaps, s.Stuck, s.Errors)
	}
}

type writer func()

func (w writer) Write(b []byte) (int, error) { w(); return len(b), nil }

// When the harness is gone, the acquires are abandoned only once.
func TestWatch_AbandonsOnceWhenTheHarnessIsGone(t *testing.T) {
	orders, ended, abandoned := make(chan Order), make(chan struct{}), 0
	close(orders)
	end := sync.OnceFunc(func() { close(ended) })
	c := &child{orders: orders, out: json.NewEncoder(writer(func() { // a report of the progress
		if abandoned > 0 {
			end()
		}
	}))}
	(&stretch{child: c}).watch(time.Hour, ended, func() {}, func() { abandoned++ })
	if abandoned != 1 {
		t.Errorf("abandoned %d times", abandoned)
	}
}

func TestChild_SaysWhatItCannot(t *testing.T) {
	w := workload.Workload{}
	got := talk(t, Order{Do: Open, Peer: "nobody", Workload: &w}, Order{Do: "dance"})
	for _, r := range got {
		if r.Event != Failed || r.Error == "" {
			t.Errorf("answer %+v", r)
		}
	}
}

func TestSection_RefusesWhoMayNotBeInside(t *testing.T) {
	for _, c := range []struct {
		first, second peer.Kind
		permits       int
		together      bool
	}{
		{peer.Exclusive, peer.Exclusive, 0, false},
		{peer.Read, peer.Read, 0, true},
		{peer.Read, peer.Write, 0, false},
		{peer.Write, peer.Read, 0, false},
		{peer.Semaphore, peer.Semaphore, 2, true},
		{peer.Semaphore, peer.Semaphore, 1, false},
	} {
		var s section
		if !s.enter(c.first, c.permits) {
			t.Errorf("%s: the first was refused", c.first)
		}
		if got := s.enter(c.second, c.permits); got != c.together {
			t.Errorf("%s with %s inside: %v", c.second, c.first, got)
		}
		s.leave(c.first)
		s.leave(c.second)
		if n := s.inside.Load(); n != 0 {
			t.Errorf("%s, %s: %d inside in the end", c.first, c.second, n)
		}
	}
}
