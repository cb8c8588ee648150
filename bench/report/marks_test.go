package report

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestGlance_KeepsTheMarkOfAWideSpread(t *testing.T) {
	var out bytes.Buffer
	sample(t, []float64{100, 101}, []float64{10, 90}).Glance(&out)
	assert.Contains(t, out.String(), "| 100 | 50 ~ |")
}

func TestMarkdown_SaysWhatTheFiguresDoNot(t *testing.T) {
	r := sample(t, []float64{100, 101}, []float64{10, 11})
	w := &r.Workloads[0]
	w.Outcomes[1].Note = "redislock: not obtained"
	w.Outcomes = append(w.Outcomes, Outcome{Peer: "etcd", Refused: "its server refuses more"}, Outcome{Peer: "redsync", Failed: "no answer"})
	var out bytes.Buffer
	r.Markdown(&out)
	for _, said := range []string{"redislock: not obtained", "etcd was not measured (its server refuses more)", "redsync failed: no answer"} {
		assert.Contains(t, out.String(), said)
	}
}

func TestSizing_HasWhatWasMeasured(t *testing.T) {
	r := sample(t, []float64{100}, []float64{10})
	r.Workloads[0].Outcomes[0].Summary["server_cpu_us_per_pair"] = Spread{Median: 43.21}
	var out bytes.Buffer
	r.Sizing(&out)
	assert.Contains(t, out.String(), "| one hot lock, handed on inside a process | 0 | 0 | 0 | 0 | 43.0 us | 4.3 % of a core | 16 000 per second |")
	assert.NotContains(t, out.String(), "fair lock")
}
