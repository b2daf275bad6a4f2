package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// maxSigmas limits the deviation of a share, in standard deviations.
	maxSigmas = 3
	// minRequests is the minimum of --accuracy: fewer requests have no canary at 0.1 %.
	minRequests = 10_000
	// senders is the number of connections that send requests.
	senders = 16
	// accuracyChanges is the number of weights that change under load, and accuracyHold how long each remains.
	accuracyChanges, accuracyHold = 100, 100 * time.Millisecond
	// effectiveLimit is the time within which a weight has to be effective, and effectivePause the pause between two
	// readings of the status.
	effectiveLimit, effectivePause = 10 * time.Second, 2 * time.Millisecond
)

// canaryShares returns the canary weights whose accuracy is measured, of a sum of 1000. Host i+1 has share i.
func canaryShares() []uint32 { return []uint32{1, 10, 50, 200, 500, 990} }

// accuracy has the splits of constant weights, and of a weight that changes under load.
type accuracy struct {
	Shares  []share `json:"shares"`
	Changes changes `json:"changes"`
}

// share is the split of one constant weight.
type share struct {
	// Permille is the weight of the canary of 1000, and Requests the number of requests to each proxy.
	Permille uint32 `json:"permille"`
	Requests int    `json:"requests"`
	// Canary and Static are the requests to the canary: of the interceptor's proxy, and of one with a static split.
	Canary int `json:"canary"`
	Static int `json:"static"`
}

// sigmas returns the deviations of both proxies.
func (s share) sigmas() (ours, static float64) {
	const sum = 1000
	asked := float64(s.Permille) / sum
	return stats.Split{Hits: s.Canary, Total: s.Requests}.Sigmas(asked),
		stats.Split{Hits: s.Static, Total: s.Requests}.Sigmas(asked)
}

// changes are the requests while a weight moves between 0 and 100 %.
type changes struct {
	Changes int `json:"changes"`
	// Requests is the number of all requests. Checked are those that began after a status reported the weight as
	// effective, and ended before the next change. Stray are those of them that the side without weight answered.
	Requests int64 `json:"requests"`
	Checked  int64 `json:"checked"`
	Stray    int64 `json:"stray"`
}

// application returns application i as newApplication, with the constant weight of its host if it has one.
func (s *environment) application(i int, weight uint32, at map[string]endpoint) application {
	app := newApplication(s.namespaceOf(i), i, weight, at)
	if s.accuracy > 0 && i > 0 && i <= len(canaryShares()) {
		app = newApplication(s.namespaceOf(i), i, weight, s.at)
		app.scaledObject.Annotations[httpv1alpha1.AnnotationWeightedBackends] = permilleSplit(i, canaryShares()[i-1])
	}
	return app
}

// permilleSplit returns the annotation of application i with a canary weight of 1000.
func permilleSplit(i int, weight uint32) string {
	return split.Format([]split.Backend{
		{Service: nameOf(i) + "-stable", Weight: 1000 - weight}, {Service: nameOf(i) + "-canary", Weight: weight},
	})
}

// measureAccuracy counts the requests of each side.
func (s *environment) measureAccuracy(ctx context.Context, found *accuracy, progress io.Writer) error {
	for i, permille := range canaryShares() {
		host := i + 1
		if err := s.awaitEffective(ctx, host, permilleSplit(host, permille)); err != nil {
			return err
		}
		one := share{Permille: permille, Requests: s.accuracy}
		for at, canary := range map[netip.AddrPort]*int{measuredProxy(): &one.Canary, s.bare.Proxy: &one.Static} {
			var err error
			if *canary, err = countCanary(ctx, at, hostOf(host), s.accuracy); err != nil {
				return fmt.Errorf("at %d of 1000: %w", permille, err)
			}
		}
		found.Shares = append(found.Shares, one)
		fmt.Fprintf(progress, "%d of 1000 done\n", permille)
	}
	return s.changeUnderLoad(ctx, &found.Changes)
}

// countCanary sends requests for a host and returns how many the canary answered.
func countCanary(ctx context.Context, at netip.AddrPort, host string, requests int) (int, error) {
	var canary, sent atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range senders {
		group.Go(func() error {
			client := newPoller(at, host)
			for sent.Add(1) <= int64(requests) {
				side, err := client.ask(ctx)
				if err != nil {
					return err
				}
				if side == sides()[1] {
					canary.Add(1)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return int(canary.Load()), err
}

// awaitEffective waits until the status of application i reports a split as effective.
func (s *environment) awaitEffective(ctx context.Context, i int, annotation string) error {
	path := scaledObjectsPath(s.namespaceOf(i)) + "/" + nameOf(i)
	return pace.Until(ctx, effectiveLimit, effectivePause, func() error {
		var object httpv1alpha1.HTTPScaledObject
		if err := apiserver.Get(ctx, s.client, path, &object); err != nil {
			return err
		}
		report := object.Status.DataPlane
		if report == nil || !report.Effective || report.AnnotationHash != split.Hash(annotation) {
			return fmt.Errorf("%w: %s is not effective: %+v", errNotReady, annotation, report)
		}
		return nil
	})
}

// idleSide is the side that has had no weight since a status reported it, with the number of the change, and the
// numbers of requests. All senders share it.
type idleSide struct {
	mu     sync.Mutex
	name   string // "" while the weight changes
	change int

	requests, checked, stray atomic.Int64
}

// get returns the side and the change.
func (s *idleSide) get() (string, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name, s.change
}

// set sets the side.
func (s *idleSide) set(name string, change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.change = name, change
}

// check sends requests until ctx ends, and checks which side answers.
func (s *idleSide) check(ctx context.Context, client poller) error {
	for ctx.Err() == nil {
		before, change := s.get()
		side, err := client.ask(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		s.requests.Add(1)
		if after, same := s.get(); before == "" || after != before || same != change {
			continue
		}
		s.checked.Add(1)
		if side == before {
			s.stray.Add(1)
		}
	}
	return nil
}

// changeUnderLoad moves the measured host from one side to the other and back, while requests are sent.
func (s *environment) changeUnderLoad(ctx context.Context, found *changes) error {
	loading, end := context.WithCancel(ctx)
	defer end()
	var idle idleSide
	group, inGroup := errgroup.WithContext(loading)
	for range senders {
		group.Go(func() error { return idle.check(inGroup, newPoller(measuredProxy(), hostOf(0))) })
	}
	group.Go(func() error {
		defer end()
		for n := range accuracyChanges {
			if err := s.changeOnce(inGroup, n, &idle); err != nil {
				return err
			}
		}
		return nil
	})
	err := group.Wait()
	*found = changes{accuracyChanges, idle.requests.Load(), idle.checked.Load(), idle.stray.Load()}
	return err
}

// changeOnce moves the measured host to its other side, and keeps it there for a while after that is effective.
func (s *environment) changeOnce(ctx context.Context, n int, idle *idleSide) error {
	idle.set("", n)
	s.side = 1 - s.side
	weight := weights()[s.side]
	if err := setWeight(ctx, s.client, fleetName(0), 0, weight); err != nil {
		return err
	}
	if err := s.awaitEffective(ctx, 0, annotation(0, weight)); err != nil {
		return err
	}
	idle.set(sides()[1-s.side], n)
	return pace.Wait(ctx, accuracyHold)
}

// limits returns the limits of the deviations.
func (a accuracy) limits() (limits []benchresult.Limit) {
	for _, one := range a.Shares {
		ours, static := one.sigmas()
		limits = append(limits, benchresult.Limit{
			Name:  fmt.Sprintf("σ, %.1f %% of %d requests", float64(one.Permille)/10, one.Requests), //nolint:mnd // percent
			Of:    fmt.Sprintf("%d to the canary, static split %d (%.1f σ)", one.Canary, one.Static, static),
			Value: ours, Limit: maxSigmas,
		})
	}
	return append(limits, benchresult.Limit{
		Name:  fmt.Sprintf("requests to a side without weight, after the status of %d changes", a.Changes.Changes),
		Of:    fmt.Sprintf("%d requests, %d of them after the status", a.Changes.Requests, a.Changes.Checked),
		Value: float64(a.Changes.Stray),
	}, benchresult.Limit{
		Name: "requests after the status of a change", Value: float64(a.Changes.Checked), Limit: 10 * float64(a.Changes.Changes), //nolint:mnd // ten for each
		AtLeast: true,
	})
}

// table prints the splits.
func (a accuracy) table(w io.Writer) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "weight, %\trequests\tto the canary\tσ\tstatic split\tσ\t")
	for _, one := range a.Shares {
		ours, static := one.sigmas()
		fmt.Fprintf(columns, "%.1f\t%d\t%d\t%.2f\t%d\t%.2f\t\n", float64(one.Permille)/10, one.Requests, one.Canary, ours, //nolint:mnd // percent
			one.Static, static)
	}
	_ = columns.Flush() // the reader notices a table that cannot be printed
	fmt.Fprintf(w, "%d changes under load: %d requests, %d after a status, %d of those to the side without weight\n\n",
		a.Changes.Changes, a.Changes.Requests, a.Changes.Checked, a.Changes.Stray)
}
