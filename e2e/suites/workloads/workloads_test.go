package workloads

import (
	"fmt"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// TestWorkloads replaces each kind of workload in one cluster. No request fails.
func TestWorkloads(t *testing.T) {
	e := launch(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, e *environment)
	}{
		{"By workloadRef", convertByReference},
		{"By a separate Rollout", convertBySeparateRollout},
		{"blue-green", promoteBlueGreen},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, e) })
	}
}

// convertByReference replaces the Deployment by a Rollout that takes its template, and promotes a canary of it.
func convertByReference(t *testing.T, e *environment) {
	t.Helper()
	const heading = "By workloadRef"
	a := e.deploy(t, "shop.yaml")
	other := a.callShop(t)
	a.write(t, heading)
	a.run(t, heading, 0)
	a.run(t, heading, 1)
	other.Check(t.Context(), t, before)
	if replicas := a.Do(t, "get", "deployment/shop", "-o", "jsonpath={.spec.replicas}"); replicas != "0" {
		t.Errorf("the Deployment has %s replicas, want 0", replicas)
	}
	a.split(t, 0)
	a.run(t, heading, 2)
	a.promote(t)
}

// convertBySeparateRollout replaces the Deployment by a Rollout with other labels, and promotes a canary of it.
func convertBySeparateRollout(t *testing.T, e *environment) {
	t.Helper()
	const heading = "By a separate Rollout"
	a := e.deploy(t, "shop.yaml")
	other := a.callShop(t)
	a.write(t, heading)
	a.run(t, heading, 0)
	a.run(t, heading, 1)
	a.Do(t, "wait", "pods", "-l", "app=shop,!workload", "--for=delete")
	other.Check(t.Context(), t, before)
	a.split(t, 0)
	a.Argo(t, "set", "image", "shop", "shop=argoproj/rollouts-demo:"+after)
	a.Do(t, "wait", "rollout/shop", "--for=jsonpath={.status.phase}=Paused")
	a.promote(t)
}

// callShop starts to call Service shop, as applications in the cluster do that do not use the proxies.
func (a *app) callShop(t *testing.T) *testbed.Caller {
	t.Helper()
	config := a.target(t)
	config.Address, config.Host, config.MaxInFlight = a.ServiceAddress(t, "shop"), "shop", 1
	return testbed.StartCaller(t, "a Pod that calls Service shop", config, func() string { return before })
}

// promote measures the canary of the page at its first step, and promotes it.
func (a *app) promote(t *testing.T) {
	t.Helper()
	a.split(t, 0.2)
	a.Argo(t, "promote", "shop")
	a.Do(t, "wait", "rollout/shop", "--for=jsonpath={.status.phase}=Healthy")
	a.awaitAll(t)
}

// promoteBlueGreen promotes a new version of a blue-green Rollout. Before the promotion it answers on the host of its
// preview, and no request for the application.
func promoteBlueGreen(t *testing.T, e *environment) {
	t.Helper()
	a := e.deploy(t, "blue-green.yaml")
	first := a.client.Next(time.Now())
	a.Argo(t, "set", "image", "shop", "shop=argoproj/rollouts-demo:"+after)
	a.Do(t, "wait", "rollout/shop", "--for=jsonpath={.status.phase}=Paused")
	a.checkPreview(t)
	a.split(t, 0)
	until := a.client.Begun()
	a.Argo(t, "promote", "shop")
	a.awaitAll(t)
	window := load.NewWindow(until-first, a.client.Ended(first, until-first))
	t.Logf("%d requests from the new image to the promotion: %v", window.Done, window.Colors)
	if window.Colors[before] != window.Done || !window.Complete() || window.Done < sample {
		invariant.Broken(t, invariant.Split, "%d requests before the promotion: %v, want only %s", window.Asked,
			window.Colors, before)
	}
}

// checkPreview waits until the new version alone answers on the host of the preview.
func (a *app) checkPreview(t *testing.T) {
	t.Helper()
	config := a.target(t)
	config.Host = "preview.example.com"
	answers, color := 0, ""
	await.Described(t, fmt.Sprintf("%d answers of the preview by %s", installed, after), func() bool {
		var err error
		if color, err = load.Probe(t.Context(), config); err != nil {
			invariant.Broken(t, invariant.FailedRequests, "the preview: %v", err)
			return true
		}
		if answers++; color != after {
			answers = 0
		}
		return answers == installed
	}, func() string { return "the last answer was by " + color })
}
