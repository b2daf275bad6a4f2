// Package stopwatch is what the benchmarks have in common: making calls from several workers, round by round, and medians of what that took.
package stopwatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// calm is how long Settle lasts.
const calm = 200 * time.Millisecond

// Sample is what a number of calls of one kind took.
type Sample struct {
	// Took is the time of each call.
	Took []time.Duration
	// Whole is the time of all of them, by all workers.
	Whole time.Duration
}

// Calls makes calls, numbered from 0, from a number of workers at a time. After one has failed no more are begun: the sample is then worth nothing.
func Calls(workers, calls int, call func(n int) error) (Sample, error) {
	sample := Sample{Took: make([]time.Duration, calls)}
	errs := make([]error, calls)
	var next atomic.Int64
	var failed atomic.Bool
	var group sync.WaitGroup
	begin := time.Now()
	for range workers {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < calls && !failed.Load(); n = int(next.Add(1)) - 1 {
				start := time.Now()
				errs[n] = call(n)
				sample.Took[n] = time.Since(start)
				if errs[n] != nil {
					failed.Store(true)
				}
			}
		})
	}
	group.Wait()
	sample.Whole = time.Since(begin)
	return sample, errors.Join(errs...)
}

// Settle lets what the calls before have caused come to an end, for a fifth of a second. Its error is that of ctx.
func Settle(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(calm):
		return nil
	}
}

// Rate is the number of calls a second.
func (s Sample) Rate() float64 { return float64(len(s.Took)) / s.Whole.Seconds() }

// Median of values: the middle one, or the mean of the two in the middle. It is 0 without values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Micros is a time in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
