package stopwatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

func TestEveryCallIsMadeOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	made := map[int]int{}
	sample, err := Calls(3, 20, func(n int) error {
		mu.Lock()
		defer mu.Unlock()
		made[n]++
		return nil
	})
	if err != nil || len(made) != 20 || len(sample.Took) != 20 {
		t.Errorf("%d different calls were made and %d measured, want 20: %v", len(made), len(sample.Took), err)
	}
	for n, times := range made {
		if times != 1 {
			t.Errorf("call %d was made %d times", n, times)
		}
	}
}

func TestAnErrorEndsTheCalls(t *testing.T) {
	t.Parallel()
	wrong, last := errors.New("wrong"), 0
	_, err := Calls(1, 20, func(n int) error {
		last = n
		if n == 7 {
			return wrong
		}
		return nil
	})
	if !errors.Is(err, wrong) || last != 7 {
		t.Errorf("the error is %v after call %d, want %v after call 7", err, last, wrong)
	}
}

func TestQuantilesMedianAndRate(t *testing.T) {
	t.Parallel()
	sample := Sample{Whole: 2 * time.Second}
	for i := 100; i > 0; i-- {
		sample.Took = append(sample.Took, time.Duration(i)*time.Millisecond)
	}
	var series Series
	series.Add(sample)
	for what, got := range map[string][2]float64{
		"p50":               {series.P50(), 50000}, // half of the calls took no longer
		"p99":               {series.P99(), 99000},
		"rate":              {sample.Rate(), 50},
		"median of three":   {Median([]float64{3, 1, 2}), 2},
		"median of four":    {Median([]float64{4, 1, 2, 3}), 2.5},
		"median of nothing": {Median(nil), 0},
	} {
		if fmt.Sprint(got[0]) != fmt.Sprint(got[1]) {
			t.Errorf("%s is %v, want %v", what, got[0], got[1])
		}
	}
}

func TestSeriesTakeMediansOverRounds(t *testing.T) {
	t.Parallel()
	var base, slower Series
	// The second round is a slow phase of the machine. The ratios of the rounds are 2, 1 and 3; the ratio of the
	// medians would be 3.
	for round, durations := range [][2]time.Duration{
		{time.Millisecond, 2 * time.Millisecond},
		{4 * time.Millisecond, 4 * time.Millisecond},
		{time.Millisecond, 3 * time.Millisecond},
	} {
		whole := time.Duration(round+1) * time.Second
		base.Add(Sample{Took: durations[:1], Whole: whole})
		slower.Add(Sample{Took: durations[1:], Whole: whole})
	}
	for what, got := range map[string][2]float64{
		"p50":              {slower.P50(), 3000},
		"p99":              {slower.P99(), 3000},
		"rate":             {slower.Rate(), 0.5},
		"ratio":            {slower.P50Ratio(&base), 2},
		"p50 of nothing":   {new(Series).P50(), 0},
		"ratio of nothing": {new(Series).P50Ratio(new(Series)), 0},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %v, want %v", what, got[0], got[1])
		}
	}
}

func TestPauseReturnsContextError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Pause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Pause returned %v", err)
	}
}
