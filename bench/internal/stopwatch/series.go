package stopwatch

import "github.com/kedify/argo-rollouts-plugin/e2e/stats"

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

// Ratio is the p50 in multiples of that of base, which has as many rounds: the median of the ratios round by round, so that a slow moment of the machine counts on
// both sides.
func (s *Series) Ratio(base *Series) float64 {
	ratios := make([]float64, len(base.p50s))
	for round := range ratios {
		ratios[round] = s.p50s[round] / base.p50s[round]
	}
	return Median(ratios)
}
