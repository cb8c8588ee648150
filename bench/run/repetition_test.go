package run

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/bench/load"
	"github.com/holdfast-go/holdfast/bench/report"
)

func TestSecondFigures_AreOfAllProcessesTogether(t *testing.T) {
	f := report.Figures{}
	secondFigures(f, []*load.Sample{{Seconds: []float64{10, 30, 20}}, {Seconds: []float64{5, 1, 1, 9}}}) // one ended a little later
	assert.Equal(t, report.Figures{"second_min_per_s": 15, "second_max_per_s": 31}, f)
}

func TestSecondFigures_NeedTwoSeconds(t *testing.T) {
	f := report.Figures{}
	secondFigures(f, []*load.Sample{{Seconds: []float64{10, 30}}, {Seconds: []float64{10}}})
	assert.Empty(t, f)
}
