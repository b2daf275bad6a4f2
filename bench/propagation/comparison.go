package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/bareserver"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/envoygateway"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
)

const (
	// minSpeedup is the minimum time of Envoy Gateway with manyRoutes and more, in multiples of the interceptor's, and
	// minSpeedupFew that with fewer routes: there, most of the interceptor's time is the API server's, which both have to
	// wait for.
	minSpeedup, manyRoutes, minSpeedupFew = 20, 1000, 4
	// maxCompared is the maximum number of weights of each system, and minCompared the minimum. Between the two, no
	// weight begins after comparedFor.
	maxCompared, minCompared, comparedFor = 60, 10, time.Minute
	// comparedLimit bounds the propagation of a weight by Envoy Gateway.
	comparedLimit = time.Minute
	// comparedWarmUp is the number of weights of each system before the measured ones.
	comparedWarmUp = 5
	// quietWindow is the time in which a system uses less than quietCPU when it has processed a weight.
	quietWindow, quietCPU = 250 * time.Millisecond, 10 * time.Millisecond
)

// comparison has the results of the interceptor and of Envoy Gateway, with as many HTTPScaledObjects as HTTPRoutes.
type comparison struct {
	Interceptor  systemResult `json:"interceptor"`
	EnvoyGateway systemResult `json:"envoyGateway"`
}

// systemResult has the results of one system.
type systemResult struct {
	// Samples is the number of weights.
	Samples int `json:"samples"`
	// Answer is the PATCH until the API server's answer. Patch is the PATCH until the first response with the new split.
	// Since is the difference of the two.
	Answer quantiles `json:"patchAnswered"`
	Patch  quantiles `json:"patch"`
	Since  quantiles `json:"sincePatchAnswered"`
	// CPU is the control plane's processor time for a weight, with the writes of statuses, in milliseconds. Memory is its
	// resident memory, in MB, when it has been idle after its start.
	CPU    float64 `json:"cpuMillis"`
	Memory float64 `json:"memoryMB"`

	answers, patches []time.Duration
}

// summarise computes the quantiles, and the mean of the processor time.
func (s *system) summarise() {
	c := s.systemResult
	c.Samples = len(c.patches)
	c.CPU = s.spent / 1000 / float64(c.Samples) //nolint:mnd // milliseconds
	since := make([]time.Duration, c.Samples)
	for i := range since {
		since[i] = c.patches[i] - c.answers[i]
	}
	c.Answer, c.Patch, c.Since = quantilesOf(c.answers), quantilesOf(c.patches), quantilesOf(since)
}

// system is one of the two systems.
type system struct {
	*systemResult

	at       process.Folder // of the control plane
	client   poller
	change   func(ctx context.Context, weight uint32) error
	side     int     // of the measured host
	idleRate float64 // microseconds of processor time per second
	spent    float64 // microseconds of processor time of the measured weights
}

// compare measures half of the interceptor's weights, then those of Envoy Gateway, then the other half. The two cannot
// run at once: Envoy Gateway serves its metrics at port 8080 of all addresses, as the interceptor's proxy its listener.
func (s *environment) compare(ctx context.Context, client poller, found *comparison) error {
	ours := &system{
		systemResult: &found.Interceptor, at: s.interceptorAt, client: client,
		change: func(ctx context.Context, weight uint32) error {
			return setWeight(ctx, s.client, fleetName(0), 0, weight)
		},
	}
	if err := ours.measure(ctx, maxCompared/2); err != nil {
		return err
	}
	if err := s.proxies[0].Kill(); err != nil {
		return err
	}
	if err := s.measureEnvoyGateway(ctx, &found.EnvoyGateway); err != nil {
		return err
	}
	proxy := bareserver.Proxy{Binary: s.Envoy, Repository: s.Repository, Folder: s.folder, Discovery: s.xdsAt}
	var err error
	if s.proxies[0], err = proxy.Start(ctx); err != nil {
		return err
	}
	if err := ours.measure(ctx, maxCompared/2); err != nil {
		return err
	}
	ours.summarise()
	return nil
}

// measureEnvoyGateway starts Envoy Gateway, measures its weights, and stops it.
func (s *environment) measureEnvoyGateway(ctx context.Context, found *systemResult) (err error) {
	if err := createGateway(ctx, s.client); err != nil {
		return err
	}
	running, err := s.envoyGateway.Start(ctx, s.client, s.folder, s.kubeconfig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.Stop()) }()
	theirs, err := s.startEnvoyGateway(ctx, running)
	if err != nil {
		return err
	}
	theirs.systemResult = found
	if err := theirs.measure(ctx, maxCompared); err != nil {
		return err
	}
	theirs.summarise()
	return nil
}

// startEnvoyGateway starts the proxy of Envoy Gateway, and waits until it serves the measured host.
func (s *environment) startEnvoyGateway(ctx context.Context, running *envoygateway.Gateway) (*system, error) {
	address, err := running.StartProxy(ctx, s.Envoy, gatewayName)
	if err != nil {
		return nil, err
	}
	at, err := process.Find(running.Control.PID())
	if err != nil {
		return nil, err
	}
	client := newPoller(address, hostOf(0))
	client.limit = comparedLimit
	err = pace.Until(ctx, idleLimit, quietWindow, func() error {
		_, err := client.ask(ctx)
		return err
	})
	return &system{at: at, client: client, change: func(ctx context.Context, weight uint32) error {
		return setRoute(ctx, s.client, 0, weight)
	}}, err
}

// prepare waits until the system is idle, and measures it then.
func (s *system) prepare(ctx context.Context) error {
	before, err := waitUntilIdle(ctx, s.at, idleWindow, idleCPU)
	if err != nil {
		return err
	}
	memory, err := s.at.Memory()
	if err != nil {
		return err
	}
	if s.Memory == 0 {
		s.Memory = memory.Resident
	}
	if err := pace.Wait(ctx, idleWindow); err != nil {
		return err
	}
	after, err := s.at.CPU()
	s.idleRate = (after - before) / idleWindow.Seconds()
	return err
}

// measure takes up to a number of samples after the warm-up: each is a PATCH that moves the measured host to its other
// side, and ends when the system is quiet again.
func (s *system) measure(ctx context.Context, samples int) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	warm := *s
	warm.systemResult = new(systemResult)
	for range comparedWarmUp {
		if err := warm.sample(ctx); err != nil {
			return err
		}
	}
	s.side = warm.side
	began := time.Now()
	for n := range samples {
		if n >= minCompared && time.Since(began) > comparedFor {
			return nil
		}
		if err := s.sample(ctx); err != nil {
			return err
		}
		pause(ctx)
	}
	return nil
}

// sample measures one weight.
func (s *system) sample(ctx context.Context) error {
	s.side = 1 - s.side
	began := time.Now()
	before, err := s.at.CPU()
	if err != nil {
		return err
	}
	took, err := arrival(ctx, s.client, sides()[s.side], func() error { return s.change(ctx, weights()[s.side]) })
	if err != nil {
		return err
	}
	s.answers, s.patches = append(s.answers, took.call), append(s.patches, took.whole)
	after, err := waitUntilIdle(ctx, s.at, quietWindow, quietCPU)
	s.spent += after - before - s.idleRate*time.Since(began).Seconds()
	return err
}

// limits returns the limit of the time from a PATCH to the first response.
func (c *comparison) limits(routes int) []benchresult.Limit {
	least := float64(minSpeedup)
	if routes < manyRoutes {
		least = minSpeedupFew
	}
	theirs, ours := c.EnvoyGateway, c.Interceptor
	return []benchresult.Limit{{
		Name: fmt.Sprintf("Envoy Gateway / interceptor, PATCH to first response, p50, %d routes", routes),
		//nolint:mnd // milliseconds
		Of: fmt.Sprintf("%.1f ms, interceptor %.1f ms; after the API server's answer %.1f and %.1f ms",
			theirs.Patch.P50/1000, ours.Patch.P50/1000, theirs.Since.P50/1000, ours.Since.P50/1000),
		Value: theirs.Patch.P50 / ours.Patch.P50, Limit: least, AtLeast: true,
	}}
}

// compareTable prints the results of each shape.
func compareTable(w io.Writer, results []result) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "routes\tweights\t\tPATCH answered, p50 ms\tfirst response, p50\tp90\tp99\t"+
		"after the answer, p50\tCPU of a weight, ms\tMB\t")
	for _, entry := range results {
		for _, row := range []struct {
			name string
			*systemResult
		}{{"interceptor", &entry.Comparison.Interceptor}, {"Envoy Gateway", &entry.Comparison.EnvoyGateway}} {
			fmt.Fprintf(columns, "%d\t%d\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t\n", entry.Shape.Objects, row.Samples,
				row.name, row.Answer.P50/1000, row.Patch.P50/1000, row.Patch.P90/1000, row.Patch.P99/1000,
				row.Since.P50/1000, row.CPU, row.Memory)
		}
	}
	fmt.Fprintln(columns)
	_ = columns.Flush() // the reader notices a table that cannot be printed
}
