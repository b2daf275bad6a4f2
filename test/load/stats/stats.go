// Package stats evaluates a measured traffic split: its deviation from the expected one, the confidence of the
// measurement, and whether the deviation is a fault or chance. It has no side effects.
package stats

import (
	"math"
	"slices"
	"time"
)

// Z95 is the quantile of the standard normal distribution that bounds the central 95 %.
const Z95 = 1.959963984540054

// Split is a measured split: Hits of Total requests went to one side.
type Split struct {
	Hits, Total int
}

// Share returns the measured share from 0 to 1; 0 for no requests.
func (s Split) Share() float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Total)
}

// Interval contains the bounds of a share, from 0 to 1.
type Interval struct {
	Low, High float64
}

// Wilson returns the score interval of the split at the quantile z (Wilson 1927). Unlike the Wald interval it stays
// within 0 to 1 and does not collapse at either end. Without requests the interval is 0 to 1.
func (s Split) Wilson(z float64) Interval {
	if s.Total == 0 {
		return Interval{Low: 0, High: 1}
	}
	n, p := float64(s.Total), s.Share()
	center := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return Interval{Low: max(0, center-half), High: min(1, center+half)}
}

// Sigmas returns the deviation of the split from the expected share (0 to 1) in standard deviations of the binomial
// distribution. For a share of 0 or 1 any deviation is infinite.
func (s Split) Sigmas(asked float64) float64 {
	n := float64(s.Total)
	off := math.Abs(float64(s.Hits) - n*asked)
	if off == 0 {
		return 0
	}
	return off / math.Sqrt(n*asked*(1-asked)) // x/0 is +Inf, as documented
}

// Tail returns P(X ≥ Hits) of the binomial distribution: the probability of at least Hits of Total if each has the
// given chance (0 to 1). It compares rare events under two conditions that are equally likely under either. Total is
// the number of events under both, chance the share of the first condition.
func (s Split) Tail(chance float64) float64 {
	less := 0.0
	term := math.Pow(1-chance, float64(s.Total)) // P(X = 0)
	for k := range s.Hits {
		less += term
		term *= float64(s.Total-k) / float64(k+1) * chance / (1 - chance)
	}
	return max(0, 1-less)
}

// Verdict is the result of a sample.
type Verdict int

// The verdicts.
const (
	// Agrees: the sample is consistent with the expected split.
	Agrees Verdict = iota
	// Unsure: the deviation requires a second, larger sample.
	Unsure
	// Off: the split is not the expected one.
	Off
)

// Rule limits the deviation of a sample in standard deviations. One sample beyond First is chance about once in
// 1/p(First) steps, so it only requires a second sample. That one must be within Second.
type Rule struct {
	First, Second float64
}

// DefaultRule accepts 3 σ in the first sample and 3.5 σ in the second. A correct split fails it about once in 800 000
// steps.
func DefaultRule() Rule { return Rule{First: 3, Second: 3.5} }

// Evaluate evaluates the first sample of a step. A share of 0 or 1 is exact: any deviation is a fault.
func (r Rule) Evaluate(s Split, asked float64) Verdict {
	switch off := s.Sigmas(asked); {
	case off <= r.First:
		return Agrees
	case math.IsInf(off, 1):
		return Off
	default:
		return Unsure
	}
}

// EvaluateSecond evaluates the second sample, after the verdict Unsure on the first.
func (r Rule) EvaluateSecond(s Split, asked float64) Verdict {
	if s.Sigmas(asked) <= r.Second {
		return Agrees
	}
	return Off
}

// Quantile returns the smallest value that is not exceeded by at least the share q (0 to 1) of the values; 0 for no
// values. It does not change the order of values.
func Quantile[T float64 | time.Duration](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}
