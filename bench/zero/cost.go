package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// costRounds is the number of turns of each path.
	costRounds = 6
	// costHeld is the number of queued requests per turn.
	costHeld = 1000
	// settling is how long requests wait before each measurement, because measuring costs processor time, too.
	settling = time.Second
	// resting is the duration of the idle measurement of each path. All other values include the idle cost.
	resting = 3 * time.Second
)

// shapes are the numbers of apps of the queued requests. In the first the cost is that of a request; in the second it
// includes the wake-up of an app.
func shapes() [2]int { return [2]int{2, mostApps} }

// measureCost measures the processor time of queued requests on each path. The paths alternate.
func (s *environment) measureCost(ctx context.Context, results *report) error {
	results.Costs = make([]cost, len(s.paths))
	for round := range costRounds {
		for i := range s.paths {
			if round%2 == 1 {
				i = len(s.paths) - 1 - i
			}
			found := &results.Costs[i]
			found.Name = s.paths[i].name
			if err := s.oneTurn(ctx, s.paths[i], found); err != nil {
				return fmt.Errorf("%s: %w", found.Name, err)
			}
		}
	}
	for i, by := range s.paths {
		before, err := by.spent()
		if err != nil {
			return err
		}
		time.Sleep(resting)
		after, err := by.spent()
		if err != nil {
			return err
		}
		results.Costs[i].Idle = loadOf([]spent{after.per(before, resting.Seconds())})
	}
	return nil
}

// oneTurn is a turn of one path: both shapes.
func (s *environment) oneTurn(ctx context.Context, by path, found *cost) error {
	for shape, apps := range shapes() {
		used, err := s.queueTurn(ctx, by, apps, found)
		if err != nil {
			return err
		}
		found.held[shape] = append(found.held[shape], used)
		if err := s.scaleAllToZero(ctx, apps); err != nil {
			return err
		}
	}
	return nil
}

// queueTurn queues requests for apps, wakes the apps, and returns the cost of a request, in microseconds.
func (s *environment) queueTurn(ctx context.Context, by path, apps int, found *cost) (spent, error) {
	before, err := by.spent()
	if err != nil {
		return spent{}, err
	}
	waiting := begin(ctx, by.proxy, costHeld, apps)
	time.Sleep(settling)
	if err := by.awaitHeld(ctx, costHeld, settling/2); err != nil { //nolint:mnd // once more
		return spent{}, err
	}
	all := writeAll(apps, writers, func(app int) error { return s.SetReady(ctx, app, true) })
	var errs error
	for range apps {
		errs = errors.Join(errs, (<-all).err)
	}
	for _, response := range waiting {
		if _, err := responseTime(<-response); err != nil {
			found.Lost++
		}
	}
	found.Requests += costHeld
	after, err := by.spent()
	return after.per(before, costHeld), errors.Join(errs, err)
}

// scaleAllToZero scales the first of the apps to zero again, and waits until each path has noticed: they have the same
// apps.
func (s *environment) scaleAllToZero(ctx context.Context, apps int) error {
	var errs error
	for app := range apps {
		errs = errors.Join(errs, s.SetReady(ctx, app, false))
	}
	for _, way := range s.paths {
		errs = errors.Join(errs, awaitAllZero(ctx, way, apps))
	}
	return errs
}
