// Package assert decides by samples whether requests are split as asked.
package assert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// ErrSplit says that requests are not split as asked.
var ErrSplit = errors.New("the split is off")

// Sample waits until n requests that are due from a moment on have ended, and
// returns them. Client.Sample of package load is one.
type Sample func(ctx context.Context, from time.Time, n int) (load.Window, error)

// Expectation is a split that requests are to follow.
type Expectation struct {
	// Color is the one whose share is measured, Share that share from 0 to 1.
	Color string
	Share float64
	// From is when the split is in force: requests due before don't count.
	From time.Time
	// First is the size of the first sample, Fresh that of another one, which is
	// taken from then on if the first is odd.
	First, Second int
	// Rule says what is odd.
	Rule stats.Rule
	// OnUnsure is told of a first sample that calls for a fresh one; it may be nil.
	OnUnsure func(first stats.Split)
	// Stalls voids samples during which the machine stood still: proxies may have taken the split late. It may be nil.
	Stalls interface {
		Largest(from, until time.Time) time.Duration
	}
}

// maxVoid is the number of samples that may be void.
const maxVoid = 5

// Result is what the sample says that decided.
type Result struct {
	stats.Split

	// Window are its requests.
	Window load.Window
	// Verdict is Agrees or Off.
	Verdict stats.Verdict
}

// Check measures the split. The error wraps ErrSplit if the verdict is Off, and
// is the sample's own if there is no full sample. When the verdict is Off and the machine stood still meanwhile, a new
// sample is taken.
func (a Expectation) Check(ctx context.Context, sample Sample) (Result, error) {
	for range maxVoid {
		began := time.Now()
		result, err := a.check(ctx, sample)
		if !errors.Is(err, ErrSplit) || a.Stalls == nil || a.Stalls.Largest(began, time.Now()) <= stall.Limit {
			return result, err
		}
		a.From = time.Now()
	}
	return a.check(ctx, sample)
}

// check is Judge without void samples.
func (a Expectation) check(ctx context.Context, sample Sample) (Result, error) {
	result, err := a.takeSample(ctx, sample, a.From, a.First)
	if err != nil {
		return result, err
	}
	result.Verdict = a.Rule.Evaluate(result.Split, a.Share)
	if result.Verdict == stats.Unsure {
		if a.OnUnsure != nil {
			a.OnUnsure(result.Split)
		}
		if result, err = a.takeSample(ctx, sample, time.Now(), a.Second); err != nil {
			return result, err
		}
		result.Verdict = a.Rule.EvaluateSecond(result.Split, a.Share)
	}
	if result.Verdict != stats.Agrees {
		err = fmt.Errorf("%w: %d of %d answered %s, asked %.0f %% (%.1f σ): %v",
			ErrSplit, result.Hits, result.Total, a.Color, a.Share*100, result.Sigmas(a.Share), result.Window.Colors)
	}
	return result, err
}

// takeSample takes one sample. One without a good answer agrees with nothing.
func (a Expectation) takeSample(ctx context.Context, sample Sample, from time.Time, n int) (Result, error) {
	window, err := sample(ctx, from, n)
	result := Result{Window: window, Verdict: stats.Off}
	if err != nil {
		return result, fmt.Errorf("sample %d requests: %w", n, err)
	}
	for color, answers := range window.Colors {
		result.Total += answers
		if color == a.Color {
			result.Hits = answers
		}
	}
	if result.Total == 0 {
		return result, fmt.Errorf("%w: none of %d requests got a good answer", ErrSplit, n)
	}
	return result, nil
}
