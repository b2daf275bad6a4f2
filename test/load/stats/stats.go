// Package stats judges a measured split: how far it lies from the asked one,
// how sure the measurement is, and when that is a fault and not chance. Pure.
package stats

import (
	"math"
	"slices"
	"time"
)

// Z95 is the quantile of the standard normal distribution that bounds the
// middle 95 %.
const Z95 = 1.959963984540054

// Split is a measured split: Hits of Total requests went to the side in
// question.
type Split struct {
	Hits, Total int
}

// Share is the measured share from 0 to 1. It is 0 for no requests at all.
func (s Split) Share() float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Total)
}

// Interval bounds a share, from 0 to 1.
type Interval struct {
	Low, High float64
}

// Wilson is the score interval of the split at the quantile z (Wilson 1927).
// Unlike the textbook interval it stays inside 0 to 1 and doesn't collapse at
// either end. No requests say nothing: the interval is all of 0 to 1.
func (s Split) Wilson(z float64) Interval {
	if s.Total == 0 {
		return Interval{Low: 0, High: 1}
	}
	n, p := float64(s.Total), s.Share()
	center := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return Interval{Low: max(0, center-half), High: min(1, center+half)}
}

// Sigmas is how many standard deviations of the binomial distribution lie
// between the split and the asked share, a number from 0 to 1. A share of 0 or
// 1 leaves no room for chance: any difference is infinitely far.
func (s Split) Sigmas(asked float64) float64 {
	n := float64(s.Total)
	off := math.Abs(float64(s.Hits) - n*asked)
	if off == 0 {
		return 0
	}
	return off / math.Sqrt(n*asked*(1-asked)) // x/0 is +Inf, as documented
}

// Tail is the chance that at least as many of Total go to the side as did, if
// each does with the given chance, a number from 0 to 1: P(X ≥ Hits) of the
// binomial distribution. It compares rare events under two conditions, that are as
// likely under either: Total are those of both, chance is the share of the first.
func (s Split) Tail(chance float64) float64 {
	less := 0.0
	term := math.Pow(1-chance, float64(s.Total)) // P(X = 0)
	for k := range s.Hits {
		less += term
		term *= float64(s.Total-k) / float64(k+1) * chance / (1 - chance)
	}
	return max(0, 1-less)
}

// Verdict is what a sample says about a split.
type Verdict int

// The verdicts.
const (
	// Agrees: the sample is what the asked split would give.
	Agrees Verdict = iota
	// Unsure: the sample is odd enough to ask for a fresh, larger one.
	Unsure
	// Off: the split is not the asked one.
	Off
)

// Rule says how far from the asked share a sample may lie, in standard
// deviations. One sample beyond First is chance about once in 1/p(First)
// steps, so it only calls for a fresh sample; that one must lie within Second.
type Rule struct {
	First, Second float64
}

// DefaultRule accepts 3 σ at once and 3.5 σ in the fresh sample. A right split
// fails it about once in 800 000 steps.
func DefaultRule() Rule { return Rule{First: 3, Second: 3.5} }

// Evaluate judges the first sample of a step. A share of 0 or 1 is exact: there a
// difference is a fault, never chance.
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

// EvaluateSecond judges the sample that a first one of verdict Unsure has asked for.
func (r Rule) EvaluateSecond(s Split, asked float64) Verdict {
	if s.Sigmas(asked) <= r.Second {
		return Agrees
	}
	return Off
}

// Quantile is the smallest of the values that at least the share q, from 0 to 1,
// doesn't exceed. It is 0 for none. The order of the input is kept.
func Quantile[T float64 | time.Duration](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}
