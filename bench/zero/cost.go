package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// costRounds is the number of turns of each path.
	costRounds = 6
	// costHeld is the number of requests of each kind per turn.
	costHeld = 1000
	// settling is how long requests wait before their number is read, which costs processor time, too.
	settling = time.Second
	// resting is the duration of the idle measurement of each path. The other values do not contain the idle cost.
	resting = 5 * time.Second
)

// shapes are the numbers of apps of the queued requests. In the first the cost is that of a request; in the second it
// includes the wake-up of an app.
func shapes() [2]int { return [2]int{2, mostApps} }

// measureCost measures the processor time of queued requests on each path, and of requests that do not wait. The paths
// alternate.
func (s *environment) measureCost(ctx context.Context, results *report) error {
	results.Costs = make([]cost, len(s.paths))
	for i, by := range s.paths {
		idle, err := by.idle()
		if err != nil {
			return err
		}
		results.Costs[i].Name, results.Costs[i].Idle = by.name, load{idle.all, idle.proxy}
	}
	for round := range costRounds {
		for i := range s.paths {
			if round%2 == 1 {
				i = len(s.paths) - 1 - i
			}
			if err := s.oneTurn(ctx, s.paths[i], &results.Costs[i]); err != nil {
				return fmt.Errorf("%s: %w", s.paths[i].name, err)
			}
		}
	}
	return nil
}

// idle returns the processor time of a path in a second without requests.
func (w path) idle() (spent, error) {
	before, err := w.spent()
	if err != nil {
		return spent{}, err
	}
	time.Sleep(resting)
	after, err := w.spent()
	return after.per(before, resting.Seconds()), err
}

// oneTurn is a turn of one path: both shapes, and requests for the awake apps of the first one.
func (s *environment) oneTurn(ctx context.Context, by path, found *cost) error {
	for shape, apps := range shapes() {
		used, err := found.ofRequests(by, func() error { return s.queue(ctx, by, apps, found) })
		if err != nil {
			return err
		}
		found.held[shape] = append(found.held[shape], used)
		if shape == 0 {
			if used, err = found.ofRequests(by, func() error { return sendAwake(ctx, by, apps) }); err != nil {
				return err
			}
			found.awake = append(found.awake, used)
		}
		if err := s.scaleAllToZero(ctx, apps); err != nil {
			return err
		}
	}
	return nil
}

// ofRequests returns the processor time of each of costHeld requests that send sends over a path, in microseconds,
// without that of an idle path.
func (c *cost) ofRequests(by path, send func() error) (spent, error) {
	before, err := by.spent()
	if err != nil {
		return spent{}, err
	}
	began := time.Now()
	if err := send(); err != nil {
		return spent{}, err
	}
	after, err := by.spent()
	seconds := time.Since(began).Seconds()
	after.all -= seconds * c.Idle.All
	after.proxy -= seconds * c.Idle.Proxy
	return after.per(before, costHeld), err
}

// queue queues requests for apps, wakes the apps, and receives the answers.
func (s *environment) queue(ctx context.Context, by path, apps int, found *cost) error {
	waiting := begin(ctx, by.proxy, costHeld, apps)
	time.Sleep(settling)
	if err := by.awaitHeld(ctx, costHeld, settling/2); err != nil { //nolint:mnd // once more
		return err
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
	return errs
}

// sendAwake sends requests for awake apps, each over a connection of its own as queued ones are, some at a time.
func sendAwake(ctx context.Context, by path, apps int) error {
	const atATime = 50
	for range costHeld / atATime {
		for _, response := range begin(ctx, by.proxy, atATime, apps) {
			if got := <-response; got.Err != nil || got.Status != http.StatusOK || !got.IsFromApp {
				return fmt.Errorf("%w from an awake app: %+v", errAnswer, got)
			}
		}
	}
	return nil
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
