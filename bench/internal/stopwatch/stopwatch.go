// Package stopwatch is the common code of the benchmarks: it makes calls from several workers, round by round, and
// computes medians of their times.
package stopwatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pauseTime is the duration of Pause.
const pauseTime = 200 * time.Millisecond

// Sample contains the times of a number of calls of one kind.
type Sample struct {
	// Took is the time of each call.
	Took []time.Duration
	// Whole is the time of all of them, by all workers.
	Whole time.Duration
}

// Calls makes calls, numbered from 0, from a number of workers in parallel. After an error no more calls are started,
// and the sample is invalid.
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

// Pause waits for a fifth of a second, so that the effects of earlier calls end. Its error is ctx's.
func Pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pauseTime):
		return nil
	}
}

// Rate returns the number of calls per second.
func (s Sample) Rate() float64 { return float64(len(s.Took)) / s.Whole.Seconds() }

// Median returns the middle of values, or the mean of the two in the middle. It is 0 without values.
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

// Micros returns a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
