package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/load"
	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// sample returns the results of two contenders in a few rounds.
func sample(t *testing.T, ours, theirs []float64) *Results {
	t.Helper()
	row, _ := workload.ByName("hot-64")
	w := Workload{Workload: row}
	w.Primary, w.Higher = row.Primary()
	w.Outcomes = []Outcome{{Peer: "holdfast"}, {Peer: "redislock"}}
	for i, rates := range [][]float64{ours, theirs} {
		for _, rate := range rates {
			waits := load.NewHistogram()
			for us := range 1000 {
				if err := waits.RecordValue(int64(us+1) * 1000); err != nil {
					t.Fatal(err)
				}
			}
			w.Outcomes[i].Add(Figures{"pairs_per_s": rate, "stuck": 0}, waits, "")
		}
	}
	w.Summarize()
	r := New(false, "7.0")
	r.Peers = []Peer{PeerOf(peer.ByName("holdfast")), PeerOf(peer.ByName("redislock"))}
	r.Workloads = []Workload{w}
	r.Began = time.Unix(0, 0)
	return r
}

func TestSpreadOf_IsMedianLeastAndMost(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{5, 1, 2}, Spread{2, 1, 5}},
		{[]float64{4, 1, 2, 8}, Spread{3, 1, 8}},
	} {
		if got := SpreadOf(c.values); got != c.want {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
}

func TestSummarize_RatiosAreTakenWithinRounds(t *testing.T) {
	r := sample(t, []float64{100, 10, 100}, []float64{10, 1, 50})
	o := r.Workloads[0].Outcomes[1]
	if want := (Spread{10, 2, 10}); *o.Ratio != want {
		t.Errorf("ratio %v, want %v: the median of the rounds' ratios, not the ratio of medians", *o.Ratio, want)
	}
	if !o.Wide {
		t.Error("1 to 50 around 10 is a wide spread")
	}
}

func TestSummarize_WhereLessIsBetterTheRatioIsTurned(t *testing.T) {
	w := Workload{Primary: "wait_p50_us", Outcomes: []Outcome{{Peer: "holdfast"}, {Peer: "redsync"}}}
	w.Outcomes[0].Add(Figures{"wait_p50_us": 10}, nil, "")
	w.Outcomes[1].Add(Figures{"wait_p50_us": 200}, nil, "")
	w.Summarize()
	if got := w.Outcomes[1].Ratio.Median; got != 20 {
		t.Errorf("20 times shorter is %v x", got)
	}
}

func TestWorse_NamesWhatIsAQuarterBelowTheRecord(t *testing.T) {
	recorded := sample(t, []float64{100}, []float64{10})
	for _, c := range []struct {
		ours     float64
		commands float64 // of the other contender
		want     string
	}{{76, 6, ""}, {74, 6, "7.40 x, recorded 10.0 x"}, {74, 0, ""}} {
		now := sample(t, []float64{c.ours}, []float64{10})
		now.Workloads[0].Outcomes[1].Summary["commands_per_pair"] = Spread{Median: c.commands}
		if got := Worse(recorded, now)["hot-64 beside redislock"]; got != c.want {
			t.Errorf("%v: %q", c, got)
		}
	}
}

func TestResults_AreReadAsTheyWereWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "r.json")
	r := sample(t, []float64{100, 120}, []float64{10, 12})
	if err := r.Write(file); err != nil {
		t.Fatal(err)
	}
	again, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	h, err := load.Decode(again.Workloads[0].Outcomes[0].Waits)
	if err != nil {
		t.Fatal(err)
	}
	if h.TotalCount() != 2000 || h.ValueAtQuantile(50) < 499_000 || h.ValueAtQuantile(50) > 501_000 {
		t.Errorf("%d waits, median %d ns", h.TotalCount(), h.ValueAtQuantile(50))
	}
	if got := again.Workloads[0].Outcomes[1].Ratio.Median; got != 10 {
		t.Errorf("ratio %v", got)
	}
}

func TestPage_NeedsNothingFromElsewhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.html")
	r := sample(t, []float64{100, 120}, []float64{10, 12})
	r.Missing = []Missing{{"redisson", "there is no <java>"}}
	if err := r.WritePage(file); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, no := range []string{"<script", "src=", "href=", "url(", "@import", "<java>", "NaN", "Inf"} {
		if strings.Contains(page, no) {
			t.Errorf("the page has %q", no)
		}
	}
	for _, yes := range []string{"Hot lock in one process, 64 goroutines", "<polyline", "<rect", "prefers-color-scheme: dark", "width=device-width"} {
		if !strings.Contains(page, yes) {
			t.Errorf("the page lacks %q", yes)
		}
	}
}
