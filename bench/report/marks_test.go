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
	for _, said := range []string{"redislock: not obtained", "etcd was not asked: its server refuses more", "redsync failed: no answer"} {
		assert.Contains(t, out.String(), said)
	}
}
