package main

import (
	"context"
	"time"
)

// measureAt measures with a number of HTTPScaledObjects.
func (s *stage) measureAt(ctx context.Context, count int) (line, error) {
	if err := s.grow(ctx, count); err != nil {
		return line{}, err
	}
	if err := setWeight(ctx, s.client, 0, 0); err != nil {
		return line{}, err
	}
	ours, theirs, scopes, err := s.startProxies(ctx)
	if err != nil {
		return line{}, err
	}
	result := line{Objects: count}
	side := "-stable"
	for sample := range (s.repeats + 1) * s.samples {
		side = map[string]string{"-stable": "-canary", "-canary": "-stable"}[side]
		pushed, err := arrival(ctx, theirs, side, func() error { return s.bare.push(scopes[side]) })
		if err != nil {
			return line{}, err
		}
		pause(ctx)
		patched, err := arrival(ctx, ours, side, func() error { return setWeight(ctx, s.client, 0, weights()[side]) })
		if err != nil {
			return line{}, err
		}
		pause(ctx)
		if sample >= s.samples { // The first round warms up.
			result.pushes, result.patches = append(result.pushes, pushed.whole), append(result.patches, patched.whole)
			result.answers = append(result.answers, patched.call)
		}
	}
	return result, s.stopProxies()
}

// times are how long a change took: until the call that made it returned, and until the first response that follows it.
type times struct{ call, whole time.Duration }

// arrival makes a change and measures when the proxy, which is asked all the while, answers with side.
func arrival(ctx context.Context, asked poller, side string, change func() error) (times, error) {
	type answer struct {
		at  time.Time
		err error
	}
	arrived := make(chan answer, 1)
	go func() {
		at, err := asked.until(ctx, side)
		arrived <- answer{at, err}
	}()
	began := time.Now()
	if err := change(); err != nil {
		return times{}, err
	}
	call := time.Since(began)
	got := <-arrived
	return times{call, got.at.Sub(began)}, got.err
}
