// Package scaling carries out the demo's second half: the guide's ScaledObject, unchanged, on KEDA. The
// agent makes the HTTPScaledObject, Envoy counts the requests, the scaler tells KEDA, and the Rollout has
// the replicas that the requests ask for, in a canary on both sides. Package scaling touches the cluster
// only by kubectl and HTTP, as a user would.
package scaling

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/shell"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/e2e/load"
)

// The guide's names and numbers. The host's app here is one of its own, beside the one that carries the
// measured load: at that load the guide's target would ask for more pods than a laptop has room for.
const (
	// Namespace is where the guide's objects live.
	Namespace = "rollouts-demo-scaled"
	// Proxies is the Service whose address requests are sent to.
	Proxies = "kedify-proxy." + Namespace + ".svc.cluster.local:8080"

	app    = "rollouts-demo"
	host   = "rollouts-demo.example.com"
	stable = "rollouts-demo-stable"
)

// Settings are what a run depends on.
type Settings struct {
	// Repo is the folder with examples/, config/ and e2e/demo/.
	Repo string
	// Proxy is this machine's address of Service kedify-proxy; if it is empty, the way there is
	// `kubectl port-forward`.
	Proxy string
	// Patience bounds how long a start may take, Followed how long replicas may take to follow a rate.
	Patience, Followed time.Duration
	// Rest is how long a number of replicas must stay as it is.
	Rest time.Duration
	// Timeout bounds each request, Delete the end of the namespace.
	Timeout, Delete time.Duration
	// Begun is when the demo began.
	Begun time.Time
}

// DefaultSettings are the settings of `make demo`. The scaler's figure is about the last minute.
func DefaultSettings() Settings {
	return Settings{
		Repo: ".", Patience: 90 * time.Second, Followed: 3 * time.Minute, Rest: 16 * time.Second,
		Timeout: 5 * time.Second, Delete: 90 * time.Second,
	}
}

// Scaled are the settings for a machine that takes so many times as long as a usual one.
func (s Settings) Scaled(factor float64) Settings {
	for _, wait := range []*time.Duration{&s.Patience, &s.Followed, &s.Timeout, &s.Delete} {
		*wait = time.Duration(float64(*wait) * factor)
	}
	return s
}

// Outcome is what a run has found, as far as it came.
type Outcome struct {
	// Rows are the rates.
	Rows []report.Replicas
	// Checks are what must hold.
	Checks []report.Check
}

// ErrCheck says that something that must hold doesn't.
var ErrCheck = errors.New("does not hold")

// Demo is a run.
type Demo struct {
	Settings

	shell     shell.Shell
	rollout   kube.Latest[kube.Rollout]
	forwarded kube.Latest[string]
	board     board
}

// New returns a run that has not begun.
func New(terminal shell.Shell, settings Settings) *Demo {
	return &Demo{Settings: settings, shell: terminal}
}

// Possible says whether the cluster has what this half needs: KEDA, the agent and the scaler.
func Possible(ctx context.Context, terminal shell.Shell) (bool, error) {
	for _, args := range [][]string{
		{"get", "crd", "scaledobjects.keda.sh", "-o", "name", "--ignore-not-found"},
		{"get", "deployments", "-A", "-l", "app.kubernetes.io/component=agent", "-o", "name"},
		{"get", "deployments", "-A", "-l", "app.kubernetes.io/component=scaler", "-o", "name"},
	} {
		out, err := terminal.Run(ctx, append([]string{"kubectl"}, args...)...)
		if err != nil || len(shell.Lines(out)) == 0 {
			return false, err
		}
	}
	return true, nil
}

// Prepare applies the guide's objects to an empty namespace. KEDA takes its time with them.
func (d *Demo) Prepare(ctx context.Context) error {
	if err := d.shell.Free(ctx, Namespace, d.Delete); err != nil {
		return err
	}
	example := filepath.Join(d.Repo, "examples", "argo-rollouts-canary")
	return d.show(ctx,
		[]string{"kubectl", "create", "-f", filepath.Join(d.Repo, "e2e", "demo", "namespace-scaled.yaml")},
		kubectl("apply", "-k", filepath.Join(d.Repo, "config", "kedify-proxy")),
		kubectl("apply", "-f", filepath.Join(example, "manifests.yaml"), "-f", filepath.Join(example, "scaledobject.yaml")),
	)
}

// Run has the replicas follow the guide's rates. The outcome holds what was found even if the run fails.
func (d *Demo) Run(ctx context.Context) (Outcome, error) {
	d.shell.Screen.Print("", d.shell.Style.Heading("Replicas follow requests"))
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() {
		kube.Watch(watching, d.shell.Runner, &d.rollout, kubectl("get", "rollout", app, "-w", "-o", "json")...)
	})
	if d.Proxy == "" {
		watchers.Go(func() {
			kube.Forward(watching, d.shell.Runner, &d.forwarded, kubectl("port-forward", "svc/kedify-proxy", ":8080")...)
		})
	}
	watchers.Go(func() { d.draw(watching) })
	err := d.ready(ctx)
	if err == nil {
		err = d.follow(ctx)
	}
	stop()
	watchers.Wait()
	rows, totals := d.board.all()
	checks, failed := judge(rows, totals)
	return Outcome{Rows: rows, Checks: checks}, errors.Join(err, failed)
}

// ready waits until KEDA has taken the ScaledObject and Envoy runs what became of it, and shows both.
func (d *Demo) ready(ctx context.Context) error {
	d.board.say("waiting for KEDA to take the ScaledObject, and for Envoy to run the HTTPScaledObject")
	slow := d.shell
	slow.Within = d.Patience + d.shell.Within
	for _, args := range [][]string{
		{"scaledobject/" + app, "--for=condition=Ready"},
		{"httpscaledobject/" + app, "--for=condition=Programmed"},
		{"rollout/" + app, "--for=jsonpath={.status.phase}=Healthy"},
	} {
		wait := kubectl(append([]string{"wait"}, append(args, fmt.Sprintf("--timeout=%.0fs", d.Patience.Seconds()))...)...)
		if _, err := slow.Run(ctx, wait...); err != nil {
			return err
		}
	}
	if err := d.show(ctx, kubectl("get", "rollout,httpso,scaledobject,hpa")); err != nil {
		return err
	}
	service, err := d.shell.Show(ctx, kubectl("get", "httpso", app, "-o", "jsonpath={.spec.scaleTargetRef.service}")...)
	if err == nil && service != stable {
		err = fmt.Errorf("%w: the HTTPScaledObject is for Service %q, want that of the Rollout's stable side, %s", ErrCheck, service, stable)
	}
	return err
}

// follow goes through the plan.
func (d *Demo) follow(ctx context.Context) error {
	for _, p := range plan() {
		if err := d.phase(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// phase sends requests at a rate, does what the user does then, and waits until the replicas are those
// that the rate asks for and stay so.
func (d *Demo) phase(ctx context.Context, p phase) error {
	began := time.Now()
	d.board.add(report.Replicas{Step: p.String(), Rate: p.rate, Wanted: wanted(p.rate)})
	client, err := load.Start(ctx, load.Config{
		Address: d.proxy(), Host: host, Path: "/color", Rate: p.rate, Timeout: d.Timeout,
		MaxInFlight: inFlight, Colors: []string{before, canary},
	})
	if err != nil {
		return fmt.Errorf("start the load: %w", err)
	}
	d.board.load(client)
	defer d.board.unload()
	if err := d.show(ctx, p.commands...); err != nil {
		return err
	}
	row, err := d.settle(ctx, p, began)
	d.board.end(row)
	d.shell.Screen.Print(d.shell.Style.Heading(fmt.Sprintf("[%s] %s", report.Seconds(time.Since(d.Begun)), p)) +
		fmt.Sprintf(": %d replicas are wanted, %d stable and %d canary after %s", row.Wanted, row.Stable, row.Canary, report.Seconds(row.After)))
	return err
}

// show runs commands and prints them with what they say.
func (d *Demo) show(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		d.board.say(shell.Line(args))
		if _, err := d.shell.Show(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// proxy is the address of Service kedify-proxy, empty as long as there is none.
func (d *Demo) proxy() string {
	if d.Proxy != "" {
		return d.Proxy
	}
	return d.forwarded.Get()
}

// kubectl is a command in the guide's namespace.
func kubectl(args ...string) []string {
	return append([]string{"kubectl", "-n", Namespace}, args...)
}
