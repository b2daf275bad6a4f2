package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
)

// writers is the number of EndpointSlices that are written in parallel: the default of kube-controller-manager
// (--concurrent-service-endpoint-syncs).
const writers = 5

// rest is the pause before a wake-up, in which the effects of earlier polls end: the garbage collection of an
// interceptor whose metrics were read every few milliseconds.
const rest = 200 * time.Millisecond

// fewestRounds is the minimum number of rounds of apps that wake together.
const fewestRounds = 6

var errAnswer = errors.New("unexpected answer")

// measureWake wakes 1, 25 and 100 apps together, each with a waiting request. It alternates between the whole path,
// direct pushes, and the whole path with the peer if there is one.
func (s *environment) measureWake(ctx context.Context, results *report) error {
	if err := s.CreateDecoys(ctx); err != nil {
		return err
	}
	for _, apps := range []int{1, 25, mostApps} {
		found := wake{Apps: apps}
		for round := 0; round < fewestRounds || len(found.endpoint) < s.options.samples; round++ {
			if err := s.wakeByObjects(ctx, s.paths[0], apps, &found.endpoint, &found.write); err != nil {
				return err
			}
			if err := s.wakeDirectly(ctx, apps, &found); err != nil {
				return err
			}
			for _, peer := range s.paths[1:] {
				if err := s.wakeByObjects(ctx, peer, apps, &found.peer, new([]time.Duration)); err != nil {
					return err
				}
			}
		}
		results.Wakes = append(results.Wakes, found)
	}
	return nil
}

// written are the times at which an app's EndpointSlice was written, and at which the API server answered.
type written struct {
	app      int
	sent, at time.Time
	err      error
}

// wakeByObjects wakes apps by their EndpointSlices, in sequence per writer, and scales them to zero again. It adds the
// times from the API server's answer, and from the write.
func (s *environment) wakeByObjects(
	ctx context.Context, by path, apps int, fromAnswer, fromWrite *[]time.Duration,
) error {
	waiting := begin(ctx, by.proxy, apps, apps)
	if err := by.awaitHeld(ctx, apps, pollInterval); err != nil {
		return err
	}
	<-time.After(rest)
	all := writeAll(apps, writers, func(app int) error { return s.SetReady(ctx, app, true) })
	var errs error
	for range apps {
		one := <-all
		answer, err := responseTime(<-waiting[one.app])
		errs = errors.Join(errs, one.err, err)
		*fromAnswer = append(*fromAnswer, max(0, answer.Sub(one.at)))
		*fromWrite = append(*fromWrite, answer.Sub(one.sent))
	}
	return errors.Join(errs, s.scaleAllToZero(ctx, apps))
}

// writeAll writes an object of each app, with the given concurrency, and returns the results.
func writeAll(apps, writers int, write func(app int) error) <-chan written {
	all, jobs := make(chan written, apps), make(chan int, apps)
	for app := range apps {
		jobs <- app
	}
	close(jobs)
	for range writers {
		go func() {
			for app := range jobs {
				sent := time.Now()
				err := write(app)
				all <- written{app, sent, time.Now(), err}
			}
		}()
	}
	return all
}

// wakeDirectly does the same by pushes. Each push follows the API server's answer to the write of an unrelated
// EndpointSlice. So the machine has the same work meanwhile, except the path from the API server to the push.
func (s *environment) wakeDirectly(ctx context.Context, apps int, found *wake) error {
	by := s.direct.path()
	waiting := begin(ctx, by.proxy, apps, apps)
	if err := by.awaitHeld(ctx, apps, pollInterval); err != nil {
		return err
	}
	<-time.After(rest)
	pushed := make([]time.Time, apps)
	all := writeAll(apps, writers, func(app int) error {
		err := s.SetDecoy(ctx, app, true)
		if err == nil {
			pushed[app], err = s.direct.setReady(app, true)
		}
		return err
	})
	var errs error
	for range apps {
		one := <-all
		answer, err := responseTime(<-waiting[one.app])
		errs = errors.Join(errs, one.err, err)
		found.direct = append(found.direct, answer.Sub(pushed[one.app]))
	}
	for app := range apps {
		_, err := s.direct.setReady(app, false)
		errs = errors.Join(errs, err, s.SetDecoy(ctx, app, false))
	}
	return errors.Join(errs, awaitAllZero(ctx, by, apps))
}

// begin sends requests for apps, one after the other.
func begin(ctx context.Context, proxy string, requests, apps int) []<-chan coldstart.Response {
	waiting := make([]<-chan coldstart.Response, requests)
	for i := range waiting {
		waiting[i] = coldstart.Send(ctx, proxy, i%apps)
	}
	return waiting
}

// responseTime returns the time of an answer. The answer must be an app's, to a request that has waited.
func responseTime(response coldstart.Response) (time.Time, error) {
	if response.Err != nil || response.Status != http.StatusOK || !response.IsFromApp || !response.IsColdStart {
		response.At = time.Time{} // Identical ones are counted together.
		return time.Time{}, fmt.Errorf("%w: %+v", errAnswer, response)
	}
	return response.At, nil
}

// awaitAllZero waits until apps are at zero: until a request for each is queued, which it then cancels.
func awaitAllZero(ctx context.Context, by path, apps int) error {
	for app := range apps {
		if err := awaitZero(ctx, by, app); err != nil {
			return err
		}
	}
	return nil
}

// awaitZero is awaitAllZero for one app.
func awaitZero(ctx context.Context, by path, app int) error {
	for end := time.Now().Add(timeout); time.Now().Before(end); {
		asking, cancel := context.WithCancel(ctx)
		answer := coldstart.Send(asking, by.proxy, app)
		isAsleep := isQueued(ctx, by, answer)
		cancel()
		if isAsleep {
			return by.awaitHeld(ctx, 0, pollInterval)
		}
	}
	return fmt.Errorf("%w: %s is still awake", errTimeout, coldstart.AppName(app))
}

// isQueued reports whether one request is queued and not answered.
func isQueued(ctx context.Context, by path, answer <-chan coldstart.Response) bool {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-answer:
			return false
		case <-ticker.C:
		}
		if held, err := by.held(ctx); err == nil && held == 1 {
			return true
		}
	}
}
