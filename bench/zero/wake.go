package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit/zerostage"
)

var errAnswer = errors.New("unexpected answer")

// measureWake wakes 1, 25 and 100 apps together, each with a request that waits, by turns through everything and by a direct push.
func (s *stage) measureWake(ctx context.Context, results *report) error {
	for _, apps := range []int{1, 25, mostApps} {
		found := wake{Apps: apps}
		for len(found.endpoint) < s.options.samples {
			if err := s.wakeByObjects(ctx, apps, &found); err != nil {
				return err
			}
			if err := s.wakeDirectly(ctx, apps, &found); err != nil {
				return err
			}
		}
		results.Wakes = append(results.Wakes, found)
	}
	return nil
}

// wakeByObjects wakes apps by their EndpointSlices, all at once, and puts them to sleep again.
func (s *stage) wakeByObjects(ctx context.Context, apps int, found *wake) error {
	waiting := begin(ctx, zerostage.Proxy, apps, apps)
	if err := awaitHeld(ctx, apps, s.held(ctx)); err != nil {
		return err
	}
	type written struct {
		app      int
		sent, at time.Time
		err      error
	}
	all := make(chan written, apps)
	for app := range apps {
		go func() {
			sent := time.Now()
			err := s.SetAwake(ctx, app, true)
			all <- written{app, sent, time.Now(), err}
		}()
	}
	var errs error
	for range apps {
		one := <-all
		answer, err := served(<-waiting[one.app])
		errs = errors.Join(errs, one.err, err)
		found.endpoint = append(found.endpoint, max(0, answer.Sub(one.at)))
		found.write = append(found.write, answer.Sub(one.sent))
	}
	for app := range apps {
		errs = errors.Join(errs, s.SetAwake(ctx, app, false))
	}
	return errors.Join(errs, asleep(ctx, zerostage.Proxy, apps, s.held(ctx)))
}

// wakeDirectly is the same by one push.
func (s *stage) wakeDirectly(ctx context.Context, apps int, found *wake) error {
	proxy := net.JoinHostPort("127.0.0.1", strconv.Itoa(directPort))
	waiting := begin(ctx, proxy, apps, apps)
	if err := awaitHeld(ctx, apps, s.direct.held); err != nil {
		return err
	}
	began, err := s.direct.setAwake(apps, true)
	errs := err
	for _, each := range waiting {
		at, err := served(<-each)
		errs = errors.Join(errs, err)
		found.direct = append(found.direct, at.Sub(began))
	}
	_, err = s.direct.setAwake(apps, false)
	return errors.Join(errs, err, asleep(ctx, proxy, apps, s.direct.held))
}

// begin makes requests for apps, one after the other.
func begin(ctx context.Context, proxy string, requests, apps int) []<-chan zerostage.Answer {
	waiting := make([]<-chan zerostage.Answer, requests)
	for i := range waiting {
		waiting[i] = zerostage.Begin(ctx, proxy, i%apps)
	}
	return waiting
}

// served is when an answer came, which is an app's to a request that has waited.
func served(is zerostage.Answer) (time.Time, error) {
	if is.Err != nil || is.Status != http.StatusOK || !is.IsApp || !is.IsCold {
		return time.Time{}, fmt.Errorf("%w: %+v", errAnswer, is)
	}
	return is.At, nil
}

// asleep waits until apps are at zero: until a request for each is held, which is canceled then.
func asleep(ctx context.Context, proxy string, apps int, held func() (int, error)) error {
	for app := range apps {
		if err := oneAsleep(ctx, proxy, app, held); err != nil {
			return err
		}
	}
	return nil
}

// oneAsleep is asleep for one app.
func oneAsleep(ctx context.Context, proxy string, app int, held func() (int, error)) error {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		asking, cancel := context.WithTimeout(ctx, look)
		is := <-zerostage.Begin(asking, proxy, app)
		cancel()
		if is.Err != nil { // It has waited.
			return awaitHeld(ctx, 0, held)
		}
	}
	return fmt.Errorf("%w: %s is still awake", errVain, zerostage.Name(app))
}
