package helm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// afterwards is how long the load continues after the end of a canary: its Pods drain for 10 s, then their connections
// end.
const afterwards = 12 * time.Second

// changed are values that replace the Pods of every component and the proxies, in addition to another tag.
const changed = " --set interceptor.resources.requests.cpu=30m,scaler.resources.requests.cpu=15m" +
	",agent.resources.requests.cpu=15m,proxies.resources.requests.cpu=110m,proxies.resources.requests.memory=80Mi" +
	",proxies.resources.limits.memory=900Mi"

// TestUpgrade upgrades a release of the previous version and rolls it back during a canary, at 250 requests per second.
// The upgrade replaces every component and the proxies. No request fails, and each step completes only after every proxy
// has its weight.
func TestUpgrade(t *testing.T) {
	e := launch(t)
	previous := e.previous(t)
	step(t, "the previous chart is installed", func(t *testing.T) {
		t.Helper()
		e.use(t, previous)
		e.installChart(t, "--set proxies.replicas=2")
		e.use(t, version{source: e.Repo, tag: secondTag})
	})
	e.DeployAutowired(t)
	const proxies = 2
	upgrade, rollback := testbed.Block(t, e.chart, "Upgrade", "sh", 0), testbed.Block(t, e.chart, "Upgrade", "sh", 1)
	change := func(ctx context.Context, trial *testbed.Trial, step, weight int, tag, command string) error {
		old, err := e.pods(ctx)
		if err != nil {
			return err
		}
		if _, err := e.try(ctx, secondTag, command); err != nil {
			return err
		}
		if err := trial.RunStep(ctx, step, weight); err != nil {
			return err
		}
		if err := e.awaitReplaced(ctx, old, proxies, weight); err != nil {
			return err
		}
		return e.checkTag(ctx, tag)
	}
	e.runCanary(t, "blue", "yellow", func(ctx context.Context, trial *testbed.Trial) error {
		if err := e.AwaitProxies(ctx, proxies, 20); err != nil {
			return err
		}
		if err := change(ctx, trial, 1, 50, secondTag, strings.TrimSpace(upgrade)+changed); err != nil {
			return err
		}
		return change(ctx, trial, 2, 80, previous.tag, rollback)
	})
}

// runCanary runs a canary from one color to another at the load of the demo through the Ingress controller. The callback
// runs at the pause at 20 % and goes to the pauses at 50 and 80 %. No check may report anything.
func (e *environment) runCanary(
	t *testing.T, from, to string, change func(context.Context, *testbed.Trial) error,
) {
	t.Helper()
	leases, began := e.WatchLease(t), time.Now()
	c := testbed.Canary{
		From: from, To: to, Final: to, Weights: []int{20, 50, 80}, Requested: []int{0, 20, 50, 80, 100, 0},
		ThroughIngress: true, Afterwards: afterwards,
	}
	verdict := e.RunCanary(t.Context(), c, func(ctx context.Context, trial *testbed.Trial) error {
		if err := trial.RunSteps(ctx, 20); err != nil {
			return err
		}
		if err := change(ctx, trial); err != nil {
			return err
		}
		return e.Argo(ctx, "promote", testbed.App)
	})
	verdict.Print(t.Output())
	for _, finding := range verdict.Findings {
		finding.Report(t)
	}
	passed, unverified := e.Record.PassedSteps(began)
	if !slices.Equal(passed, c.Weights) {
		t.Errorf("the Rollout passed the steps %v, want %v", passed, c.Weights)
	}
	for _, text := range unverified {
		invariant.Broken(t, invariant.EarlyACK, "%s", text)
	}
	leases.CheckRouter(t)
}

// TestTakeOver installs the manifests of config with kubectl, and takes them over with the chart during a canary, at 250
// requests per second. No request fails, and each step completes only after every proxy has its weight.
func TestTakeOver(t *testing.T) {
	e := launch(t)
	testbed.TagImages(t, e.Cluster, "0.1.0") // the tag in config/kustomization.yaml
	step(t, "the manifests are installed", e.installManifests)
	e.DeployAutowired(t)
	const proxies = 1
	takeOver := func(n int) string { return line(t, e.chart, "Take over existing objects", 0, n) }
	change := func(ctx context.Context, trial *testbed.Trial, step, weight int, command string) error {
		if _, err := e.try(ctx, firstTag, command); err != nil {
			return err
		}
		if err := trial.RunStep(ctx, step, weight); err != nil {
			return err
		}
		return errors.Join(e.awaitComponents(ctx), e.checkTag(ctx, firstTag))
	}
	e.runCanary(t, "blue", "yellow", func(ctx context.Context, trial *testbed.Trial) error {
		if err := change(ctx, trial, 1, 50, takeOver(0)); err != nil {
			return err
		}
		if err := change(ctx, trial, 2, 80, takeOver(1)); err != nil {
			return err
		}
		return e.AwaitProxies(ctx, proxies, 80)
	})
	output := e.run(t, testbed.Block(t, e.chart, "Install", "sh", 0))
	if !strings.Contains(output, "Phase:          Succeeded") {
		t.Errorf("helm test: %s", output)
	}
}

// installManifests applies the manifests of config, and registers the plugins with an init container.
func (e *environment) installManifests(t *testing.T) {
	t.Helper()
	e.run(t, "kubectl apply --server-side --force-conflicts -k config")
	config, err := e.howTo.Block("Option C: an init container", "yaml", 0)
	if err != nil {
		t.Fatal(err)
	}
	e.writeFile(t, "argo-rollouts-config.yaml", config)
	e.run(t, testbed.Block(t, e.howTo, "Option C: an init container", "sh", 0))
	if err := e.awaitComponents(t.Context()); err != nil {
		t.Fatal(err)
	}
}
