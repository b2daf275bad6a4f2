package stopwatch

import "github.com/kedify/argo-rollouts-plugin/test/load/stats"

// Series are the samples of one kind of call, one of each round.
type Series struct{ p50s, p99s, rates []float64 }

// Add takes the sample of one more round.
func (s *Series) Add(sample Sample) {
	s.p50s = append(s.p50s, Micros(stats.Quantile(sample.Took, 0.5)))
	s.p99s = append(s.p99s, Micros(stats.Quantile(sample.Took, 0.99)))
	s.rates = append(s.rates, sample.Rate())
}

// P50 is the median of the rounds' p50, in microseconds. It is 0 without rounds, as are the other medians.
func (s *Series) P50() float64 { return Median(s.p50s) }

// P99 is the median of the rounds' p99, in microseconds.
func (s *Series) P99() float64 { return Median(s.p99s) }

// Rate is the median of the rounds' calls a second.
func (s *Series) Rate() float64 { return Median(s.rates) }

// P50Ratio is the p50 in multiples of that of base, which has as many rounds: the median of the ratios round by round,
// so that a slow moment of the machine counts on both sides.
func (s *Series) P50Ratio(base *Series) float64 { return ratio(s.p50s, base.p50s) }

// P99Ratio is the p99 in multiples of that of base, as P50Ratio has it.
func (s *Series) P99Ratio(base *Series) float64 { return ratio(s.p99s, base.p99s) }

// RateRatio is the rate in multiples of that of base, as P50Ratio has it.
func (s *Series) RateRatio(base *Series) float64 { return ratio(s.rates, base.rates) }

// ratio is the median of values in multiples of those of base, round by round.
func ratio(values, base []float64) float64 {
	ratios := make([]float64, len(base))
	for round := range ratios {
		ratios[round] = values[round] / base[round]
	}
	return Median(ratios)
}
