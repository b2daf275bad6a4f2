// Package scenario runs the demo's first half: the guide's canary under load, step by step, measured from the outside.
// It accesses the cluster only through kubectl and HTTP, like a user.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/shell"
	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// The errors of a run, in addition to await.ErrNotReached and assert.ErrSplit.
var (
	// ErrOverload means that this machine could not generate the load, so the measurement is invalid.
	ErrOverload = errors.New("the load client is overloaded")
	// ErrWeight means that Envoy ran a weight that no step requests.
	ErrWeight = errors.New("a weight that no step requests")
	// ErrTooSlow means that this machine's capacity is below the minimum load.
	ErrTooSlow = errors.New("this machine is too slow")
)

// Settings configures a run.
type Settings struct {
	Waits

	// Address is the address for requests, as host:port. If it is empty, the demo uses `kubectl port-forward` to Service
	// kedify-proxy.
	Address string
	// Dial connects to the entrance and to Envoy's admin interface, like net.Dialer.DialContext, which is the default.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Rate is the number of requests per second, from MinRate to MaxRate. A slower machine gets fewer.
	Rate float64
	// Capacity measures the machine's capacity: see load.Capacity.
	Capacity func(ctx context.Context, target load.Config, burst time.Duration) (rate float64,
		totals load.Totals, err error)
	// Sample is the number of requests in the measurement of a step.
	Sample int
	// Rule evaluates the measurement.
	Rule stats.Rule
	// Pause is the timed pause of the guide's Rollout.
	Pause time.Duration
	// MaxInFlight is the maximum number of concurrent requests.
	MaxInFlight int
	// Started is when the demo started.
	Started time.Time
}

// DefaultSettings are the settings of `make demo`.
func DefaultSettings() Settings {
	return Settings{
		Waits: defaultWaits(), Rate: 250, Capacity: load.Capacity, Sample: 2000, Rule: stats.DefaultRule(),
		Pause: 30 * time.Second, MaxInFlight: 4000,
	}
}

// Outcome is the result of a run, possibly partial.
type Outcome struct {
	// Rows are the steps.
	Rows []report.Row
	// Checks are the conditions that must hold; they are made after the end of the load.
	Checks []report.Check
	// Totals count all requests.
	Totals load.Totals
	// RunningCanary is the time from the start to the first measured split, Elapsed the total time.
	RunningCanary, Elapsed time.Duration
}

// demo is a running demo.
type demo struct {
	Settings

	runner kube.Runner
	screen shell.Screen
	style  report.Style

	rollout kube.Latest[kube.Rollout]
	object  kube.Latest[kube.HTTPScaledObject]
	address kube.Latest[string]
	// forwarded is the local address of a port-forward to Service kedify-proxy.
	forwarded   kube.Latest[string]
	envoy       *envoyadmin.Client
	view        kube.Latest[state]
	unrequested kube.Latest[string] // what Envoy ran although no step requests it
	display     display

	client  *load.Client
	before  envoyadmin.Counters
	counted int // number of requests with errors that a row already contains
	outcome Outcome
}

// Run runs the guide's canaries on applied objects. The outcome contains partial results if the run fails; the error
// contains everything that was wrong.
func Run(ctx context.Context, runner kube.Runner, screen shell.Screen, style report.Style,
	settings Settings,
) (Outcome, error) {
	d := &demo{Settings: settings, runner: runner, screen: screen, style: style}
	d.envoy = envoyadmin.NewClient(d.Admin, d.Dial, d.address.Get)
	defer d.envoy.Close()
	err := d.observed(ctx, d.underLoad)
	d.outcome.Rows = d.display.all()
	d.outcome.Elapsed = time.Since(settings.Started)
	return d.outcome, err
}

// observed runs work, watches the cluster and Envoy, and draws the frame. All of that has ended when it returns.
func (d *demo) observed(ctx context.Context, work func(context.Context) error) error {
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer stop()
	watchers.Go(func() {
		kube.Watch(watching, d.runner, &d.rollout, guide.Kubectl("get", "rollout", app, "-w", "-o", "json")...)
	})
	watchers.Go(func() {
		kube.Watch(watching, d.runner, &d.object, guide.Kubectl("get", "httpso", app, "-w", "-o", "json")...)
	})
	watchers.Go(func() {
		kube.Forward(watching, d.runner, &d.address, guide.Kubectl("port-forward", "svc/kedify-proxy-admin", ":9901")...)
	})
	if d.Address == "" {
		watchers.Go(func() {
			kube.Forward(watching, d.runner, &d.forwarded, guide.Kubectl("port-forward", "svc/kedify-proxy", ":8080")...)
		})
	}
	watchers.Go(func() { d.watchEnvoy(watching) })
	watchers.Go(func() { d.draw(watching) })
	return work(ctx)
}

// underLoad waits for the app, runs the canaries under load, and compares the client's counts with Envoy's.
func (d *demo) underLoad(ctx context.Context) error {
	if err := d.bringUp(ctx); err != nil {
		return err
	}
	client, err := load.Start(ctx, d.target())
	if err != nil {
		return fmt.Errorf("start the load: %w", err)
	}
	d.client = client
	d.display.load(client)
	d.screen.Print("", d.style.Heading(fmt.Sprintf("The load runs: %.0f requests/s through kedify-proxy, never repeated, "+
		"over fresh, kept and pinned HTTP/1.1 and h2c connections", d.Rate)))
	err = d.canaries(ctx)
	totals, pinned := client.Stop()
	d.outcome.Totals = totals
	if shares := d.unrequested.Get(); shares != "" {
		err = errors.Join(err, fmt.Errorf("%w: Envoy ran %s", ErrWeight, shares))
	}
	if !errors.Is(err, ErrOverload) {
		err = errors.Join(err, d.overload(totals))
	}
	if ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return errors.Join(err, d.conclude(ctx, totals, pinned))
}

// target returns the configuration of the requests.
func (d *demo) target() load.Config {
	return load.Config{
		Address: d.requestAddress(), Dial: d.Dial, Host: guide.Host, Path: "/color", Rate: d.Rate,
		Timeout: d.Timeout, MaxInFlight: d.MaxInFlight, Colors: guide.Colors(),
	}
}

// requestAddress returns the address for requests, empty while there is none.
func (d *demo) requestAddress() string {
	if d.Address != "" {
		return d.Address
	}
	return d.forwarded.Get()
}

// bringUp waits until the app responds through the proxy, adapts the load to the machine, and waits until Envoy's admin
// interface is available.
func (d *demo) bringUp(ctx context.Context) error {
	err := d.await(ctx, "the Rollout to be Healthy", d.Patience,
		func() bool { return d.rollout.Get().Healthy() }, func() string { return d.rollout.Get().String() })
	if err != nil {
		return err
	}
	var probed error
	err = d.await(ctx, "the first answer through the proxy", d.Patience, func() bool {
		_, probed = load.Probe(ctx, d.target())
		return probed == nil
	}, func() string { return load.Reason(probed, d.Timeout) })
	if err != nil {
		return err
	}
	if err := d.pace(ctx); err != nil {
		return err
	}
	var looked time.Time
	return d.await(ctx, "Envoy's counters to stand still", d.Patience, func() bool {
		if time.Since(looked) < d.Poll {
			return false
		}
		last := d.before
		looked = time.Now()
		d.before, probed = d.envoy.Counters(ctx)
		return probed == nil && d.before == last
	}, func() string {
		if probed != nil {
			return probed.Error()
		}
		return "requests come in that this demo does not send"
	})
}

// canaries runs one canary after the other.
func (d *demo) canaries(ctx context.Context) error {
	for n, r := range plan(d.Pause, d.Patience) {
		d.screen.Print("", d.style.Heading("Canary "+r.String()))
		for i, s := range r.steps {
			if err := d.step(ctx, r, s, n == 0 && i == 0); err != nil {
				return fmt.Errorf("canary %s, step %s: %w", r, s.name, err)
			}
		}
	}
	return nil
}
