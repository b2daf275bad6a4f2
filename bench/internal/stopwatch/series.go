package stopwatch

import "github.com/kedify/argo-rollouts-plugin/test/load/stats"

// Series are the samples of one kind of call, one per round.
type Series struct{ p50s, p99s, rates []float64 }

// Add adds the sample of one more round.
func (s *Series) Add(sample Sample) {
	s.p50s = append(s.p50s, Micros(stats.Quantile(sample.Took, 0.5)))
	s.p99s = append(s.p99s, Micros(stats.Quantile(sample.Took, 0.99)))
	s.rates = append(s.rates, sample.Rate())
}

// P50 returns the median of the rounds' p50, in microseconds. Like the other medians, it is 0 without rounds.
func (s *Series) P50() float64 { return Median(s.p50s) }

// P99 returns the median of the rounds' p99, in microseconds.
func (s *Series) P99() float64 { return Median(s.p99s) }

// Rate returns the median of the rounds' calls per second.
func (s *Series) Rate() float64 { return Median(s.rates) }

// P50Ratio returns the p50 in multiples of base's, which has the same number of rounds. It is the median of the ratios
// round by round, so that a slow phase of the machine affects both sides.
func (s *Series) P50Ratio(base *Series) float64 { return ratio(s.p50s, base.p50s) }

// P99Ratio returns the p99 in multiples of base's, computed as in P50Ratio.
func (s *Series) P99Ratio(base *Series) float64 { return ratio(s.p99s, base.p99s) }

// RateRatio returns the rate in multiples of base's, computed as in P50Ratio.
func (s *Series) RateRatio(base *Series) float64 { return ratio(s.rates, base.rates) }

// ratio returns the median of values in multiples of base's, round by round.
func ratio(values, base []float64) float64 {
	ratios := make([]float64, len(base))
	for round := range ratios {
		ratios[round] = values[round] / base[round]
	}
	return Median(ratios)
}
