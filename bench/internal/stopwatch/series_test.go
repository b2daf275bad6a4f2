package stopwatch

import (
	"testing"
	"time"
)

func TestEachRatioIsOfItsOwnFigure(t *testing.T) {
	t.Parallel()
	var base, other Series
	base.Add(Sample{Took: []time.Duration{1, 2, 2, 5}, Whole: time.Second})
	other.Add(Sample{Took: []time.Duration{1, 6, 6, 20}, Whole: 2 * time.Second})
	for what, got := range map[string][2]float64{
		"p50":  {other.P50Ratio(&base), 3},
		"p99":  {other.P99Ratio(&base), 4},
		"rate": {other.RateRatio(&base), 0.5},
	} {
		if got[0] != got[1] {
			t.Errorf("the ratio of %s is %v, want %v", what, got[0], got[1])
		}
	}
}
