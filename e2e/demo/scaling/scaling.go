// Package scaling runs the demo's second half. Envoy counts the requests, the scaler reports the rate to KEDA, and KEDA
// scales the guide's Rollout, including both sides of a canary. In the end there are no requests, the app scales to
// zero, and one request wakes it. The package accesses the cluster only through kubectl and HTTP, like a user.
package scaling

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
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// Settings configures a run.
type Settings struct {
	// Address is the address of the Ingress controller, as host:port.
	Address string
	// Dial connects to it, like net.Dialer.DialContext, which is the default.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Stable and Canary are the colors of the running version and the canary.
	Stable, Canary string
	// ScaleTimeout is the time limit for replicas to reach the number for a rate.
	ScaleTimeout time.Duration
	// StablePeriod is how long the number of replicas must stay unchanged.
	StablePeriod time.Duration
	// Window is the time over which the rate of the guide's object is measured.
	Window time.Duration
	// Timeout is the time limit of each request, WakeTimeout that of the request that wakes the app.
	Timeout, WakeTimeout time.Duration
	// Started is when the demo started.
	Started time.Time
}

// DefaultSettings returns the settings of `make demo`. The time limits that fail a run are as long as await.Patience.
func DefaultSettings() Settings {
	patience := await.Patience()
	return Settings{
		Stable: "blue", Canary: "yellow", ScaleTimeout: patience,
		//testbounds:allow how long the replicas must stay right
		StablePeriod: 16 * time.Second,
		// The default of spec.scalingMetric.requestRate.window.
		Window:  time.Minute,
		Timeout: patience, WakeTimeout: patience,
	}
}

// Scaled returns the settings for a machine that is slower than a normal one by a factor.
func (s Settings) Scaled(factor float64) Settings {
	for _, wait := range []*time.Duration{&s.ScaleTimeout, &s.Timeout, &s.WakeTimeout} {
		*wait = time.Duration(float64(*wait) * factor)
	}
	return s
}

// Outcome is the result of a run, possibly partial.
type Outcome struct {
	// Rows are the rates.
	Rows []report.Replicas
	// Checks are the conditions that must hold.
	Checks []report.Check
}

// Demo is a run.
type Demo struct {
	Settings

	shell   shell.Shell
	rollout kube.Latest[kube.Rollout]
	display display
}

// New returns a run that has not started.
func New(terminal shell.Shell, settings Settings) *Demo {
	d := &Demo{Settings: settings, shell: terminal}
	d.shell.OnCommand = d.display.setStatus
	return d
}

// Run lets the replicas follow the guide's rates. The outcome contains partial results if the run fails.
func (d *Demo) Run(ctx context.Context) (Outcome, error) {
	d.shell.Screen.Print("", d.shell.Style.Heading("Replicas follow requests"))
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() {
		kube.Watch(watching, d.shell.Runner, &d.rollout, guide.Kubectl("get", "rollout", guide.App, "-w", "-o", "json")...)
	})
	watchers.Go(func() { d.draw(watching) })
	err := d.runPhases(ctx)
	woken := report.Check{}
	if err == nil {
		woken, err = d.wake(ctx)
	}
	stop()
	watchers.Wait()
	rows, totals := d.display.all()
	checks, failed := d.evaluate(rows, totals)
	if woken.Name != "" {
		checks = append(checks, woken)
	}
	return Outcome{Rows: rows, Checks: checks}, errors.Join(err, failed)
}

// runPhases runs the phases of the plan.
func (d *Demo) runPhases(ctx context.Context) error {
	for _, p := range d.plan() {
		if err := d.phase(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// phase sends requests at a rate, runs the user's commands, and waits until the replicas fit the rate and stay so.
func (d *Demo) phase(ctx context.Context, p phase) error {
	began := time.Now()
	d.display.add(report.Replicas{Step: p.String(), Rate: p.rate, Expected: expectedReplicas(p.rate)})
	client, err := load.Start(ctx, load.Config{
		Address: d.Address, Dial: d.Dial, Host: guide.Host, Path: "/color", Rate: p.rate, Timeout: d.Timeout,
		MaxInFlight: inFlight, Colors: guide.Colors(),
	})
	if err != nil {
		return fmt.Errorf("start the load: %w", err)
	}
	d.display.startLoad(client)
	defer d.display.stopLoad()
	if err := d.shell.ShowAll(ctx, p.commands...); err != nil {
		return err
	}
	if p.afterOthers {
		if err := d.awaitWindow(ctx); err != nil {
			return err
		}
	}
	row, err := d.awaitReplicas(ctx, p, began)
	d.display.end(row)
	d.shell.Screen.Print(d.shell.Style.Heading(fmt.Sprintf("[%s] %s", report.Seconds(time.Since(d.Started)), p)) +
		fmt.Sprintf(": %d replicas expected, %d stable and %d canary after %s", row.Expected, row.Stable,
			row.Canary, report.Seconds(row.After)))
	return err
}
