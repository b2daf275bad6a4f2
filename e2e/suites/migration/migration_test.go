package migration

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestMigration moves an application from the KEDA HTTP add-on to this project and back, by the commands of the page.
// No request fails, and the application always has the replicas that its requests need.
func TestMigration(t *testing.T) {
	e := launch(t)
	e.step(t, "the add-on is installed", e.installAddOn)
	e.step(t, "the add-on wakes the application", e.deploy)
	e.step(t, "installations in the add-on's namespace are refused", e.checkRefusals)
	e.startTraffic(t)
	e.awaitReplicas(t)
	for _, step := range []struct {
		heading string
		check   func(t *testing.T)
	}{
		{"Install next to the add-on", e.checkReported},
		{"Let both scale the application", e.checkTriggers(2)},
		{"Point the Ingress at the proxies", e.awaitProxies},
	} {
		e.step(t, step.heading, func(t *testing.T) {
			t.Helper()
			t.Log(e.run(t, testbed.Block(t, e.page, step.heading, "sh", 0)))
			step.check(t)
		})
	}
	e.step(t, "the add-on's trigger is removed", func(t *testing.T) {
		t.Helper()
		t.Log(e.run(t, testbed.Block(t, e.page, "Point the Ingress at the proxies", "sh", 1)))
		e.checkTriggers(1)(t)
	})
	e.step(t, "Remove the add-on", e.removeAddOn)
	e.stopTraffic(t)
	e.step(t, "this project wakes the application", e.wake)
	e.returnToAddOn(t)
	t.Logf("\n%s", e.report)
}

// returnToAddOn runs the page's commands back to the add-on.
func (e *environment) returnToAddOn(t *testing.T) {
	t.Helper()
	const heading = "Return to the add-on"
	e.startTraffic(t)
	e.awaitReplicas(t)
	e.step(t, "the add-on is installed again", e.installAddOn)
	e.step(t, heading, func(t *testing.T) {
		t.Helper()
		t.Log(e.run(t, testbed.Block(t, e.page, heading, "sh", 0)))
		e.awaitPath(t, false)
		e.checkTriggers(1)(t)
	})
	e.step(t, "this project is removed", func(t *testing.T) {
		t.Helper()
		t.Log(e.run(t, testbed.Block(t, e.page, heading, "sh", 1)))
		e.checkReady(t)
	})
	e.stopTraffic(t)
	e.step(t, "the add-on wakes the application again", e.wake)
}

// installAddOn applies the objects of a release of the add-on.
func (e *environment) installAddOn(t *testing.T) {
	t.Helper()
	e.run(t, "kubectl apply --server-side -k add-on")
	for _, component := range []string{"operator", "interceptor", "scaler"} {
		e.Do(t, "rollout", "status", "-n", keda, "deployment/keda-add-ons-http-"+component)
	}
}

// deploy deploys the application behind the add-on, without replicas, and wakes it.
func (e *environment) deploy(t *testing.T) {
	t.Helper()
	e.Do(t, "apply", "--server-side", "-f", "testdata/shop.yaml")
	e.checkReady(t)
	e.wake(t)
}

// checkReady waits until the operator of the add-on has configured KEDA for the application.
func (e *environment) checkReady(t *testing.T) {
	t.Helper()
	e.Do(t, "wait", "-n", namespace, "httpscaledobject/shop", "--for=condition=Ready")
	e.Do(t, "wait", "-n", namespace, "scaledobject/shop", "--for=create")
	e.Do(t, "wait", "-n", namespace, "scaledobject/shop", "--for=condition=Ready")
	if owner := e.Do(t, "get", "-n", namespace, "scaledobject/shop", "-o", "jsonpath={.metadata.ownerReferences[*].kind}"); owner !=
		"HTTPScaledObject" {
		t.Errorf("the owner of the ScaledObject is %q", owner)
	}
}

// checkTriggers returns a check that the ScaledObject has that many triggers, and that KEDA reports as many metrics.
func (e *environment) checkTriggers(want int) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		const metrics = "jsonpath={.status.currentMetrics[*].external.current.averageValue}"
		got := ""
		await.Described(t, "the metrics of all triggers", func() bool {
			got = e.Do(t, "get", "-n", namespace, "hpa/keda-hpa-shop", "-o", "jsonpath={.spec.metrics[*].type}") + " " +
				e.Do(t, "get", "-n", namespace, "hpa/keda-hpa-shop", "-o", metrics)
			return len(strings.Fields(got)) == 2*want
		}, func() string { return got })
		t.Logf("metrics: %s", got)
	}
}

// removeAddOn runs the page's commands that remove the add-on.
func (e *environment) removeAddOn(t *testing.T) {
	t.Helper()
	for n := range 2 {
		t.Log(e.run(t, testbed.Block(t, e.page, "Remove the add-on", "sh", n)))
	}
	if left := e.Do(t, "get", "-n", namespace, "httpscaledobject/shop", "-o", "jsonpath={.metadata.finalizers}"); left != "" {
		t.Errorf("the HTTPScaledObject has the finalizers %s", left)
	}
	e.Do(t, "wait", "-n", keda, "pods", "--for=delete", "-l", "app.kubernetes.io/component=add-on")
	e.checkDoctor(t, false)
	e.awaitPath(t, true)
}

// reason is the reason of refusals.
const reason = "Deployment keda/keda-add-ons-http-operator belongs to the KEDA HTTP add-on"

// checkReported checks that doctor reports the add-on.
func (e *environment) checkReported(t *testing.T) {
	t.Helper()
	e.checkDoctor(t, true)
}

// awaitProxies waits until all requests take the path of the proxies.
func (e *environment) awaitProxies(t *testing.T) {
	t.Helper()
	e.awaitPath(t, true)
}

// checkDoctor checks whether doctor reports the add-on.
func (e *environment) checkDoctor(t *testing.T, isReported bool) {
	t.Helper()
	out, err := e.try(t.Context(), "kubectl http-canary doctor")
	if strings.Contains(out, "OtherProductInstalled") != isReported {
		t.Errorf("doctor reports the add-on: %t, want %t (%v)\n%s", !isReported, isReported, err, out)
	}
}

// checkRefusals checks that neither Helm nor the kubectl plugin installs components in the namespace of the add-on, and
// what kubectl would do.
func (e *environment) checkRefusals(t *testing.T) {
	t.Helper()
	const state = "kubectl -n keda get services,deployments,secrets,configmaps,serviceaccounts -o " +
		`jsonpath='{range .items[*]}{.kind}/{.metadata.name} {.spec.selector} {.spec.template}{"\n"}{end}'; kubectl get clusterroles,crds -o name`
	before := e.run(t, state)
	helm := strings.ReplaceAll(strings.Split(testbed.Block(t, e.page, "Install next to the add-on", "sh", 0), "\n")[1],
		"--namespace kedify-http", "--namespace "+keda)
	for name, command := range map[string]string{
		"helm": helm, "helm --take-ownership": helm + " --take-ownership",
		"the kubectl plugin": "kubectl http-canary install --init-container --image-tag " + tag +
			" --components interceptor,scaler,agent",
	} {
		if out, err := e.try(t.Context(), command); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %q\n%s", name, err, reason, out)
		}
	}
	if after := e.run(t, state); after != before {
		t.Errorf("a refused installation changed the cluster: before\n%s\nafter\n%s", before, after)
	}
	// The page warns of this: the Service would select no Pod, although the Deployment is rejected.
	const apply = "kubectl apply --server-side --force-conflicts --dry-run=server -f config/"
	const want = `{"app.kubernetes.io/component":"interceptor","app.kubernetes.io/name":"http-add-on"}`
	if selector := e.run(t, apply+"interceptor/services.yaml -o "+
		`jsonpath='{.items[?(@.metadata.name=="keda-add-ons-http-interceptor-proxy")].spec.selector}'`); selector != want {
		t.Errorf("kubectl apply gives the Service of the add-on's interceptor the selector %s, want %s", selector, want)
	}
	if out, err := e.try(t.Context(), apply+"interceptor/deployment.yaml"); err == nil || !strings.Contains(err.Error(), "immutable") {
		t.Errorf("kubectl apply of the interceptor: %v\n%s", err, out)
	}
}
