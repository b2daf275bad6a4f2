package helm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// afterwards is how long the load continues after the end of a canary: its Pods drain for 10 s, then their connections
// end.
const afterwards = 12 * time.Second

// components are the components of the chart by the label of their Pods.
func components() []string { return []string{"interceptor", "scaler", "agent"} }

// changed are values that replace the Pods of every component and the proxies, in addition to another tag.
const changed = " --set interceptor.resources.requests.cpu=30m,scaler.resources.requests.cpu=15m" +
	",agent.resources.requests.cpu=15m,proxies.resources.requests.cpu=110m,proxies.resources.requests.memory=80Mi" +
	",proxies.resources.limits.memory=900Mi"

// TestUpgrade upgrades a release and rolls it back during a canary, at 250 requests per second. The upgrade replaces
// every component and the proxies. No request fails, and each step completes only after every proxy has its weight.
func TestUpgrade(t *testing.T) {
	e := launch(t)
	step(t, "the chart is installed", func(t *testing.T) { t.Helper(); e.installChart(t, "--set proxies.replicas=2") })
	e.DeployAutowired(t)
	const proxies = 2
	upgrade, rollback := block(t, e.chart, "Upgrade", 0), block(t, e.chart, "Upgrade", 1)
	e.runCanary(t, func(ctx context.Context, trial *testbed.Trial) error {
		if err := e.AwaitProxies(ctx, proxies, 20); err != nil {
			return err
		}
		old := e.pods(t) //nolint:contextcheck // it uses the context of the test
		if _, err := e.try(ctx, secondTag, strings.TrimSpace(upgrade)+changed); err != nil {
			return err
		}
		if err := trial.RunStep(ctx, 1, 50); err != nil {
			return err
		}
		if err := e.awaitReplaced(ctx, t, old, proxies, 50); err != nil {
			return err
		}
		e.checkTag(t, secondTag) //nolint:contextcheck // it uses the context of the test
		old = e.pods(t)          //nolint:contextcheck // it uses the context of the test
		if _, err := e.try(ctx, secondTag, rollback); err != nil {
			return err
		}
		if err := trial.RunStep(ctx, 2, 80); err != nil {
			return err
		}
		if err := e.awaitReplaced(ctx, t, old, proxies, 80); err != nil {
			return err
		}
		e.checkTag(t, firstTag) //nolint:contextcheck // it uses the context of the test
		return nil
	})
}

// runCanary runs a canary at the load of the demo through the Ingress controller. The callback runs at the pause at 20 %
// and goes to the pauses at 50 and 80 %. No check may report anything.
func (e *environment) runCanary(t *testing.T, change func(context.Context, *testbed.Trial) error) {
	t.Helper()
	leases, began := e.WatchLease(t), time.Now()
	c := testbed.Canary{
		From: "blue", To: "yellow", Final: "yellow", Weights: []int{20, 50, 80}, Requested: []int{0, 20, 50, 80, 100, 0},
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

// pods returns the names of the Pods of the components, and of the proxies of the testbed's application.
func (e *environment) pods(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	const names = "jsonpath={.items[*].metadata.name}"
	for _, component := range components() {
		found := strings.Fields(e.kubectl(e.namespace).Do(t, "get", "pods", "-l", "app.kubernetes.io/name=http-add-on,"+
			"app.kubernetes.io/component="+component, "-o", names))
		if len(found) == 0 {
			t.Errorf("there is no %s", component)
		}
		for _, name := range found {
			all[name] = true
		}
	}
	for name := range strings.FieldsSeq(e.kubectl(testbed.Namespace).Do(t, "get", "pods", "-l", "app=kedify-proxy", "-o",
		names)) {
		all[name] = true
	}
	return all
}

// awaitReplaced waits until no earlier Pod exists, and the new proxies have a weight.
func (e *environment) awaitReplaced(ctx context.Context, t *testing.T, old map[string]bool, proxies, weight int) error {
	t.Helper()
	var left []string
	if err := await.Until(ctx, "all Pods to be replaced", func() bool { //nolint:contextcheck // that of the test
		present := e.pods(t)
		left = slices.DeleteFunc(slices.Sorted(maps.Keys(old)), func(name string) bool { return !present[name] })
		return len(left) == 0
	}, func() string { return fmt.Sprintf("%v exist", left) }); err != nil {
		return err
	}
	for _, deployment := range []string{
		"keda-add-ons-http-interceptor", "keda-add-ons-http-external-scaler", "kedify-http-agent",
	} {
		//nolint:contextcheck // that of the test
		e.kubectl(e.namespace).Do(t, "rollout", "status", "deployment/"+deployment)
	}
	return e.AwaitProxies(ctx, proxies, weight)
}

// checkTag checks that the components run the images of a tag.
func (e *environment) checkTag(t *testing.T, tag string) {
	t.Helper()
	for _, component := range components() {
		images := strings.Fields(e.kubectl(e.namespace).Do(t, "get", "pods", "-l", "app.kubernetes.io/component="+component,
			"-o", "jsonpath={.items[*].spec.containers[*].image}"))
		want := "registry.example.com/kedify/argo-rollouts-plugin/" + component + ":" + tag
		if slices.ContainsFunc(images, func(image string) bool { return image != want }) || len(images) == 0 {
			t.Errorf("%s runs %v, want %s", component, images, want)
		}
	}
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
	e.runCanary(t, func(ctx context.Context, trial *testbed.Trial) error {
		if _, err := e.try(ctx, firstTag, takeOver(0)); err != nil {
			return err
		}
		if err := trial.RunStep(ctx, 1, 50); err != nil {
			return err
		}
		if err := e.awaitComponents(t); err != nil { //nolint:contextcheck // it uses the context of the test
			return err
		}
		e.checkTag(t, firstTag) //nolint:contextcheck // it uses the context of the test
		if _, err := e.try(ctx, firstTag, takeOver(1)); err != nil {
			return err
		}
		if err := trial.RunStep(ctx, 2, 80); err != nil {
			return err
		}
		if err := e.awaitComponents(t); err != nil { //nolint:contextcheck // it uses the context of the test
			return err
		}
		return e.AwaitProxies(ctx, proxies, 80)
	})
	if output := e.run(t, block(t, e.chart, "Install", 0)); !strings.Contains(output, "Phase:          Succeeded") {
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
	e.run(t, block(t, e.howTo, "Option C: an init container", 0))
	if err := e.awaitComponents(t); err != nil {
		t.Fatal(err)
	}
}

// awaitComponents waits until the Deployments of the components are complete, and no earlier Pod of them exists.
func (e *environment) awaitComponents(t *testing.T) error {
	t.Helper()
	k := e.kubectl(e.namespace)
	for _, deployment := range []string{
		"keda-add-ons-http-interceptor", "keda-add-ons-http-external-scaler", "kedify-http-agent",
	} {
		k.Do(t, "rollout", "status", "deployment/"+deployment)
	}
	terminating := ""
	return await.Until(t.Context(), "no Pod of the components to terminate", func() bool {
		terminating = k.Do(t, "get", "pods", "-l", "app.kubernetes.io/name=http-add-on", "-o",
			`jsonpath={range .items[?(@.metadata.deletionTimestamp)]}{.metadata.name} {end}`)
		return terminating == ""
	}, func() string { return terminating })
}
