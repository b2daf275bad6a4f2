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

// Asked is a split that requests are to follow.
type Asked struct {
	// Color is the one whose share is measured, Share that share from 0 to 1.
	Color string
	Share float64
	// From is when the split is in force: requests due before don't count.
	From time.Time
	// First is the size of the first sample, Fresh that of another one, which is
	// taken from then on if the first is odd.
	First, Fresh int
	// Rule says what is odd.
	Rule stats.Rule
	// Odd is told of a first sample that calls for a fresh one; it may be nil.
	Odd func(first stats.Split)
	// Stalls voids samples during which the machine stood still: proxies may have taken the split late. It may be nil.
	Stalls interface {
		Largest(from, until time.Time) time.Duration
	}
}

// maxVoid is the number of samples that may be void.
const maxVoid = 5

// Finding is what the sample says that decided.
type Finding struct {
	stats.Split

	// Window are its requests.
	Window load.Window
	// Verdict is Agrees or Off.
	Verdict stats.Verdict
}

// Judge measures the split. The error wraps ErrSplit if the verdict is Off, and
// is the sample's own if there is no full sample. When the verdict is Off and the machine stood still meanwhile, a new
// sample is taken.
func (a Asked) Judge(ctx context.Context, sample Sample) (Finding, error) {
	for range maxVoid {
		began := time.Now()
		found, err := a.judge(ctx, sample)
		if !errors.Is(err, ErrSplit) || a.Stalls == nil || a.Stalls.Largest(began, time.Now()) <= stall.Limit {
			return found, err
		}
		a.From = time.Now()
	}
	return a.judge(ctx, sample)
}

// judge is Judge without void samples.
func (a Asked) judge(ctx context.Context, sample Sample) (Finding, error) {
	found, err := a.take(ctx, sample, a.From, a.First)
	if err != nil {
		return found, err
	}
	found.Verdict = a.Rule.Judge(found.Split, a.Share)
	if found.Verdict == stats.Unsure {
		if a.Odd != nil {
			a.Odd(found.Split)
		}
		if found, err = a.take(ctx, sample, time.Now(), a.Fresh); err != nil {
			return found, err
		}
		found.Verdict = a.Rule.JudgeFresh(found.Split, a.Share)
	}
	if found.Verdict != stats.Agrees {
		err = fmt.Errorf("%w: %d of %d answered %s, asked %.0f %% (%.1f σ): %v",
			ErrSplit, found.Hits, found.Total, a.Color, a.Share*100, found.Sigmas(a.Share), found.Window.Colors)
	}
	return found, err
}

// take takes one sample. One without a good answer agrees with nothing.
func (a Asked) take(ctx context.Context, sample Sample, from time.Time, n int) (Finding, error) {
	window, err := sample(ctx, from, n)
	found := Finding{Window: window, Verdict: stats.Off}
	if err != nil {
		return found, fmt.Errorf("sample %d requests: %w", n, err)
	}
	for color, answers := range window.Colors {
		found.Total += answers
		if color == a.Color {
			found.Hits = answers
		}
	}
	if found.Total == 0 {
		return found, fmt.Errorf("%w: none of %d requests got a good answer", ErrSplit, n)
	}
	return found, nil
}
