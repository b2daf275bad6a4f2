package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
)

const (
	// costRounds is how often each way takes its turn.
	costRounds = 6
	// costHeld is how many requests are held in a turn, and costWarm how many are sent to apps that are awake, over costConnections connections.
	costHeld, costWarm, costConnections = 1000, 4000, 16
	// settling is how long requests wait before they are looked at: each look costs what is measured.
	settling = time.Second
	// resting is how long nothing is asked, to see what each way takes then: that is in all other figures, too.
	resting = 3 * time.Second
)

// shapes are the numbers of apps that the held requests are for: in the first a request is what costs, in the second the waking of an app, too.
func shapes() [2]int { return [2]int{2, mostApps} }

// measureCost takes the processor time of requests by each way, which take turns: of those that are held, and of those for apps that are awake.
func (s *stage) measureCost(ctx context.Context, results *report) error {
	results.Costs = make([]cost, len(s.ways))
	for round := range costRounds {
		for i := range s.ways {
			if round%2 == 1 {
				i = len(s.ways) - 1 - i
			}
			found := &results.Costs[i]
			found.Name = s.ways[i].name
			if err := s.oneTurn(ctx, s.ways[i], found); err != nil {
				return fmt.Errorf("%s: %w", found.Name, err)
			}
		}
	}
	for i, by := range s.ways {
		before, err := by.spent()
		if err != nil {
			return err
		}
		time.Sleep(resting)
		after, err := by.spent()
		if err != nil {
			return err
		}
		results.Costs[i].Idle = loadOf([]spent{after.each(before, resting.Seconds())})
	}
	return nil
}

// oneTurn is a turn of one way: both shapes, and warm requests.
func (s *stage) oneTurn(ctx context.Context, by way, found *cost) error {
	for shape, apps := range shapes() {
		used, err := s.holdTurn(ctx, by, apps, found)
		if err != nil {
			return err
		}
		found.held[shape] = append(found.held[shape], used)
		if apps < mostApps {
			if err := s.sleepAll(ctx, apps); err != nil {
				return err
			}
			continue
		}
		used, lost, err := warmTurn(ctx, by)
		if err != nil {
			return err
		}
		found.warm = append(found.warm, used)
		found.Requests += costWarm
		found.Lost += lost
	}
	return s.sleepAll(ctx, mostApps)
}

// holdTurn holds requests for apps, wakes them, and returns what each has taken, in microseconds.
func (s *stage) holdTurn(ctx context.Context, by way, apps int, found *cost) (spent, error) {
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
	for _, each := range waiting {
		if _, err := served(<-each); err != nil {
			found.Lost++
		}
	}
	found.Requests += costHeld
	after, err := by.spent()
	return after.each(before, costHeld), errors.Join(errs, err)
}

// sleepAll puts the first of the apps to sleep again, until each way knows it: they have the same apps.
func (s *stage) sleepAll(ctx context.Context, apps int) error {
	var errs error
	for app := range apps {
		errs = errors.Join(errs, s.SetReady(ctx, app, false))
	}
	for _, way := range s.ways {
		errs = errors.Join(errs, asleep(ctx, way, apps))
	}
	return errs
}

// warmTurn sends requests to apps that are awake, over connections that stay. It returns what each has taken, in microseconds, and how many were lost.
func warmTurn(ctx context.Context, by way) (used spent, lost int, err error) {
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: costConnections, MaxIdleConnsPerHost: costConnections}, Timeout: limit}
	defer client.CloseIdleConnections()
	before, err := by.spent()
	if err != nil {
		return spent{}, 0, err
	}
	var next, failed atomic.Int64
	var group sync.WaitGroup
	for range costConnections {
		group.Go(func() {
			for i := next.Add(1); i <= costWarm; i = next.Add(1) {
				if !isServed(ctx, client, by.proxy, int(i)%mostApps) {
					failed.Add(1)
				}
			}
		})
	}
	group.Wait()
	after, err := by.spent()
	return after.each(before, costWarm), int(failed.Load()), err
}

// isServed says that a request for an app was answered by it.
func isServed(ctx context.Context, client *http.Client, proxy string, app int) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+proxy+"/", http.NoBody)
	if err != nil {
		return false
	}
	request.Host = coldstart.AppHost(app)
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return err == nil && response.StatusCode == http.StatusOK && string(body) == coldstart.AppBody
}
