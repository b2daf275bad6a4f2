package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
)

// atOnce is the number of connections that are opened before the previous ones are queued.
const atOnce = 500

// usage is the usage of both processes.
type usage struct {
	memory      [2]process.Memory
	descriptors [2]int
}

// readUsage reads the usage of Envoy and the interceptor.
func (s *environment) readUsage() (usage, error) {
	var found usage
	var errs error
	for i, at := range []process.Folder{s.envoyAt, s.interceptorAt} {
		var err error
		found.memory[i], err = at.Memory()
		errs = errors.Join(errs, err)
		found.descriptors[i], err = at.Descriptors()
		errs = errors.Join(errs, err)
	}
	return found, errs
}

// measureQueued queues the maximum number of requests, checks that one more is rejected, and wakes all apps. Then it
// queues the maximum again and cancels all requests.
func (s *environment) measureQueued(ctx context.Context, results *report) error {
	before, err := s.readUsage()
	if err != nil {
		return err
	}
	waiting, err := s.fillQueue(ctx)
	if err != nil {
		return err
	}
	full, err := s.readUsage()
	if err != nil {
		return err
	}
	found := &results.Held
	found.Requests = s.options.held
	for i, name := range []*part{&found.Envoy, &found.Interceptor} {
		name.BeforeMB, name.HeldMB = before.memory[i].Resident, full.memory[i].Resident
		name.KilobytesEach = (name.HeldMB - name.BeforeMB) * 1000 / float64(s.options.held)
		name.DescriptorsBefore, name.DescriptorsHeld = before.descriptors[i], full.descriptors[i]
	}
	began := time.Now()
	refused := <-coldstart.Send(ctx, coldstart.Proxy, 0)
	if found.RefusedAfterMS = milliseconds(time.Since(began)); refused.Reason != "limit" {
		return fmt.Errorf("%w to a request above the maximum: %+v", errAnswer, refused)
	}
	if err := s.wakeAll(ctx, waiting, found); err != nil {
		return err
	}
	return s.cancel(ctx, found)
}

// fillQueue queues the maximum number of requests.
func (s *environment) fillQueue(ctx context.Context) ([]<-chan coldstart.Response, error) {
	waiting := make([]<-chan coldstart.Response, 0, s.options.held)
	for len(waiting) < s.options.held {
		more := min(atOnce, s.options.held-len(waiting))
		waiting = append(waiting, begin(ctx, coldstart.Proxy, more, mostApps)...)
		if err := s.paths[0].awaitHeld(ctx, len(waiting), pollInterval); err != nil {
			return nil, err
		}
	}
	return waiting, nil
}

// wakeAll wakes all apps together, and scales them to zero again when all requests have been answered.
func (s *environment) wakeAll(ctx context.Context, waiting []<-chan coldstart.Response, found *held) error {
	began := time.Now()
	all := writeAll(mostApps, mostApps, func(app int) error { return s.SetReady(ctx, app, true) })
	var errs error
	for range mostApps {
		errs = errors.Join(errs, (<-all).err)
	}
	failures := map[string]int{}
	for _, response := range waiting {
		at, err := responseTime(<-response)
		if err != nil {
			failures[err.Error()]++
			continue
		}
		found.Answered++
		found.LastAfterMS = max(found.LastAfterMS, milliseconds(at.Sub(began)))
	}
	for failure, count := range failures {
		found.Failures = append(found.Failures, fmt.Sprintf("%d × %s", count, failure))
	}
	slices.Sort(found.Failures)
	return errors.Join(errs, s.scaleAllToZero(ctx, mostApps))
}

// cancel queues the maximum number of requests, and then cancels all.
func (s *environment) cancel(ctx context.Context, found *held) error {
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	if _, err := s.fillQueue(leaving); err != nil {
		return err
	}
	began := time.Now()
	leave()
	if err := s.paths[0].awaitHeld(ctx, 0, pollInterval); err != nil {
		return err
	}
	found.CanceledAfterMS = milliseconds(time.Since(began))
	return nil
}

// milliseconds returns a duration in milliseconds.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
