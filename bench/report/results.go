// Package report stores the results of a run, and shows them as a table, as JSON and as a page.
package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast/bench/load"
	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// Results are the results of one run.
type Results struct {
	Quick     bool       `json:"quick"` // the windows last a fraction of a second: such a run shows that everything works, and measures nothing
	Began     time.Time  `json:"began"`
	Ended     time.Time  `json:"ended"`
	Command   []string   `json:"command"`
	Machine   Machine    `json:"machine"`
	Versions  []Version  `json:"versions"`
	Peers     []Peer     `json:"peers"`
	Missing   []Missing  `json:"missing,omitempty"`
	Workloads []Workload `json:"workloads"`
	Skipped   []string   `json:"skipped,omitempty"` // workloads that were not measured, because a signal stopped the run before their turn
}

// Peer describes a contender in the results.
type Peer struct {
	Name   string    `json:"name"`
	About  string    `json:"about"`
	Source string    `json:"source"`
	Role   peer.Role `json:"role"`
}

// PeerOf returns the description of a contender for the results.
func PeerOf(p *peer.Peer) Peer { return Peer{p.Name, p.About, p.Source, p.Role} }

// Missing is a contender that could not take part.
type Missing struct {
	Peer string `json:"peer"`
	Why  string `json:"why"`
}

// Figures are the values of one repetition, by name: see figures.go.
type Figures map[string]float64

// Workload is a workload with its results.
type Workload struct {
	workload.Workload
	Primary  string    `json:"primary"` // the figure by which contenders are compared
	Higher   bool      `json:"higherIsBetter"`
	Outcomes []Outcome `json:"outcomes"`
}

// Outcome is the result of one contender in one workload.
type Outcome struct {
	Peer        string            `json:"peer"`
	Failed      string            `json:"failed,omitempty"`
	Refused     string            `json:"refused,omitempty"` // why the contender was not measured in this workload
	Note        string            `json:"note,omitempty"`
	Discarded   int               `json:"discarded,omitempty"` // repetitions that were measured again, because other programs were busy meanwhile
	Repetitions []Figures         `json:"repetitions"`
	Summary     map[string]Spread `json:"summary"`
	Ratio       *Spread           `json:"ratio,omitempty"` // how many times better the first contender is than this one, over all rounds
	Wide        bool              `json:"wide,omitempty"`  // the spread of the primary figure is too wide to trust the median
	Waits       string            `json:"waits,omitempty"` // HDR histogram of all repetitions, ns, V2 compressed, base64
	merged      *hdrhistogram.Histogram
}

// Spread has the median of some values, the lowest value and the highest.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// tooWide is a share of the median. If the repetitions are further apart than that, the median is not trusted.
const tooWide = 0.3

// Wide reports whether the values are too far apart to trust the median.
func (s Spread) Wide() bool { return s.Most-s.Least > tooWide*math.Abs(s.Median) }

// SpreadOf returns the spread of values.
func SpreadOf(values []float64) Spread {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return Spread{(s[(n-1)/2] + s[n/2]) / 2, s[0], s[n-1]}
}

// Add adds a repetition.
func (o *Outcome) Add(figures Figures, waits *hdrhistogram.Histogram, note string) {
	o.Repetitions = append(o.Repetitions, figures)
	if note != "" {
		o.Note = note
	}
	if waits != nil {
		if o.merged == nil {
			o.merged = load.NewHistogram()
		}
		o.merged.Merge(waits)
	}
}

// Summarize computes medians, ratios and marks from the repetitions.
func (w *Workload) Summarize() {
	for i := range w.Outcomes {
		o := &w.Outcomes[i]
		o.Summary = map[string]Spread{}
		if o.Failed != "" || len(o.Repetitions) == 0 {
			continue
		}
		for name := range o.Repetitions[0] {
			o.Summary[name] = SpreadOf(o.each(name))
		}
		o.Wide = len(o.Repetitions) > 1 && o.Summary[w.Primary].Wide()
		if o.merged != nil {
			o.Waits, _ = load.Encode(o.merged)
		}
	}
	for i := range w.Outcomes[1:] {
		w.compare(&w.Outcomes[0], &w.Outcomes[i+1])
	}
}

func (o *Outcome) each(name string) (values []float64) {
	for _, f := range o.Repetitions {
		values = append(values, f[name])
	}
	return values
}

// compare computes the ratio of the first contender to another within each round.
func (w *Workload) compare(first, other *Outcome) {
	var ratios []float64
	for i := range min(len(first.Repetitions), len(other.Repetitions)) {
		a, b := first.Repetitions[i][w.Primary], other.Repetitions[i][w.Primary]
		if !w.Higher {
			a, b = b, a
		}
		if a > 0 && b > 0 {
			ratios = append(ratios, a/b)
		}
	}
	if len(ratios) > 0 && first.Failed == "" && other.Failed == "" {
		spread := SpreadOf(ratios)
		other.Ratio = &spread
	}
}

// Outcome returns the outcome of a contender, or nil.
func (w *Workload) Outcome(peer string) *Outcome {
	for i := range w.Outcomes {
		if w.Outcomes[i].Peer == peer {
			return &w.Outcomes[i]
		}
	}
	return nil
}

// Err returns what failed, or nil if nothing did. A missing contender is not a failure.
func (r *Results) Err() error {
	var all []error
	for _, w := range r.Workloads {
		for _, o := range w.Outcomes {
			if o.Failed != "" {
				all = append(all, fmt.Errorf("%s: %s: %s", w.Name, o.Peer, o.Failed))
			}
		}
	}
	return errors.Join(all...)
}
