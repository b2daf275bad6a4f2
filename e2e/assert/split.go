// Package assert measures by samples whether requests are split as requested.
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

// ErrSplit means that requests are not split as requested.
var ErrSplit = errors.New("the split is off")

// Sample waits until n requests that are due after a moment have ended, and returns them. Client.Sample of package load
// implements it.
type Sample func(ctx context.Context, from time.Time, n int) (load.Window, error)

// Expectation is a traffic split that requests have to follow.
type Expectation struct {
	// Color is the measured color, Share its expected share of the requests, from 0 to 1.
	Color string
	Share float64
	// From is when the split becomes active: requests that are due earlier do not count.
	From time.Time
	// First is the size of the first sample. Second is that of the second sample, which is taken if the first is unsure.
	First, Second int
	// Rule decides about a sample.
	Rule stats.Rule
	// OnUnsure is called with a first sample that requires a second one; it may be nil.
	OnUnsure func(first stats.Split)
	// Stalls reports for how long the machine stalled. A wrong sample during a stall is void, because proxies may have
	// applied the split late. It may be nil.
	Stalls interface {
		Largest(from, until time.Time) time.Duration
	}
}

// maxVoid is the maximum number of void samples.
const maxVoid = 5

// Result is the result of the deciding sample.
type Result struct {
	stats.Split

	// Window contains the requests of the sample.
	Window load.Window
	// Verdict is Agrees or Off.
	Verdict stats.Verdict
}

// Check measures the split. The error wraps ErrSplit if the verdict is Off. If no sample is complete, it is the error
// of the sample. A wrong sample is repeated if the machine stalled during it.
func (e Expectation) Check(ctx context.Context, sample Sample) (Result, error) {
	for range maxVoid {
		began := time.Now()
		result, err := e.check(ctx, sample)
		if !errors.Is(err, ErrSplit) || e.Stalls == nil || e.Stalls.Largest(began, time.Now()) <= stall.Limit {
			return result, err
		}
		e.From = time.Now()
	}
	return e.check(ctx, sample)
}

// check is Check without the repetition of void samples.
func (e Expectation) check(ctx context.Context, sample Sample) (Result, error) {
	result, err := e.takeSample(ctx, sample, e.From, e.First)
	if err != nil {
		return result, err
	}
	result.Verdict = e.Rule.Evaluate(result.Split, e.Share)
	if result.Verdict == stats.Unsure {
		if e.OnUnsure != nil {
			e.OnUnsure(result.Split)
		}
		if result, err = e.takeSample(ctx, sample, time.Now(), e.Second); err != nil {
			return result, err
		}
		result.Verdict = e.Rule.EvaluateSecond(result.Split, e.Share)
	}
	if result.Verdict != stats.Agrees {
		err = fmt.Errorf("%w: %d of %d answered %s, desired %.0f %% (%.1f σ): %v",
			ErrSplit, result.Hits, result.Total, e.Color, e.Share*100, result.Sigmas(e.Share), result.Window.Colors)
	}
	return result, err
}

// takeSample takes one sample. A sample without a single successful answer is an error.
func (e Expectation) takeSample(ctx context.Context, sample Sample, from time.Time, n int) (Result, error) {
	window, err := sample(ctx, from, n)
	result := Result{Window: window, Verdict: stats.Off}
	if err != nil {
		return result, fmt.Errorf("sample %d requests: %w", n, err)
	}
	for color, answers := range window.Colors {
		result.Total += answers
		if color == e.Color {
			result.Hits = answers
		}
	}
	if result.Total == 0 {
		return result, fmt.Errorf("%w: none of %d requests got a good answer", ErrSplit, n)
	}
	return result, nil
}
