package run

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/load"
	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/workload"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// If a process reports a sample that cannot be read, the measurement returns the error.
func TestMeasurePairs_ReturnsTheErrorOfASample(t *testing.T) {
	redis, err := startRedis(redistest.Start(t).Options().Addr)
	require.NoError(t, err)
	defer redis.end()
	reports := make(chan load.Report, 1)
	reports <- load.Report{Event: load.Done, Sample: &load.Sample{Waits: "no histogram"}}
	c := &contender{
		run: &Run{redis: redis}, peer: peer.ByName("sync.Mutex"), w: workload.Workload{Shape: workload.Pairs, Naming: workload.Fresh},
		processes: []*process{{
			command: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}, orders: json.NewEncoder(io.Discard), reports: reports,
		}},
	}
	_, err = c.measurePairs(0)
	assert.ErrorContains(t, err, "histogram")
}

func TestSecondFigures_AreOfAllProcessesTogether(t *testing.T) {
	f := report.Figures{}
	secondFigures(f, []*load.Sample{{Seconds: []float64{10, 30, 20}}, {Seconds: []float64{5, 1, 1, 9}}}) // the second process ended a little later
	assert.Equal(t, report.Figures{"second_min_per_s": 15, "second_max_per_s": 31}, f)
}

func TestSecondFigures_NeedTwoSeconds(t *testing.T) {
	f := report.Figures{}
	secondFigures(f, []*load.Sample{{Seconds: []float64{10, 30}}, {Seconds: []float64{10}}})
	assert.Empty(t, f)
}

func TestUndisturbed_MeasuresAgainWhileOthersAreBusy(t *testing.T) {
	for name, c := range map[string]struct {
		others  []float64 // CPU of other programs in each try
		again   int
		counted []float64
	}{
		"quiet":               {[]float64{0.05}, 5, []float64{0.05}},
		"busy, then quiet":    {[]float64{0.7, 0.2, 0.01}, 5, []float64{0.01}},
		"always busy":         {[]float64{0.7, 0.8, 0.9}, 2, []float64{0.9}},
		"a quick run":         {[]float64{0.7}, 0, []float64{0.7}},
		"it failed":           {nil, 5, nil},
		"it fails in the end": {[]float64{0.7}, 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o, tries := &report.Outcome{}, 0
			undisturbed(o, c.again, func() (repetition, bool) {
				tries++
				if tries > len(c.others) {
					return repetition{}, false
				}
				return repetition{figures: report.Figures{"others_cpu_cores": c.others[tries-1]}}, true
			})
			var counted []float64
			for _, f := range o.Repetitions {
				counted = append(counted, f["others_cpu_cores"])
			}
			assert.Equal(t, c.counted, counted)
			assert.Equal(t, len(c.others)-len(c.counted), o.Discarded)
		})
	}
}
