package helm

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

// other is the namespace of a release that is not in namespace keda.
const other = "routing"

// TestValues installs the chart with other values until a canary is measured, and uninstalls it again.
//
// Nothing in the cluster enforces NetworkPolicies: the test shows only that the chart creates them.
func TestValues(t *testing.T) {
	e := launch(t)
	e.kubectl("").Do(t, "create", "namespace", other)
	for _, test := range []struct {
		name, namespace, set string
		prepare, check       func(t *testing.T, e *environment)
	}{
		{
			name: "another namespace and a restricted network", namespace: other,
			set: "networkPolicies.enabled=true,keda.namespace=keda", check: checkPolicies,
		},
		{
			name: "two replicas of each component and two proxies", namespace: keda,
			set: "proxies.replicas=2,pods.spreadOverZones=true", check: checkReplicas,
		},
		{
			name: "a registry that requires credentials", namespace: keda,
			set: "image.registry=" + privateRegistry + "/kedify,image.pullSecrets[0].name=registry," +
				"proxies.image=" + privateRegistry + "/" + proxyImage(t, e.Repo),
			prepare: addCredentials, check: checkPrivateRegistry,
		},
	} {
		step(t, test.name, func(t *testing.T) {
			t.Helper()
			e.namespace = test.namespace
			if test.prepare != nil {
				test.prepare(t, e)
			}
			before := e.inventory(t)
			e.installChart(t, "--set "+test.set)
			e.deployDemo(t)
			test.check(t, e)
			e.startCanary(t)
			e.measure(t)
			e.uninstall(t)
			e.checkNothingRemains(t, before)
			e.kubectl("").Do(t, "delete", "namespace", demo)
			e.resetRollouts(t)
		})
	}
}

// deployDemo deploys the tutorial's application in the page's namespace, and waits until its Ingress is wired.
func (e *environment) deployDemo(t *testing.T) {
	t.Helper()
	example := testbed.Example(t, e.Repo, testbed.Host, "namespace.yaml", "manifests.yaml", "scaledobject.yaml")
	// Two Pods suffice for the load of the measurement.
	testbed.ReplaceInFile(t, example[2], `targetValue: "5"`, `targetValue: "1000"`)
	k := e.kubectl(demo)
	k.Do(t, "apply", "-f", example[0], "-f", example[1], "-f", example[2])
	k.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy")
	e.awaitWired(t)
	k.Do(t, "rollout", "status", "deployment/kedify-proxy")
}

// startCanary runs the page's command that starts a canary, and waits for its pause.
func (e *environment) startCanary(t *testing.T) {
	t.Helper()
	e.run(t, testbed.Block(t, e.howTo, "With Helm", "sh", 1))
	e.kubectl(demo).Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Paused")
}

// checkPolicies checks that the NetworkPolicies exist, and that proxies connect to the interceptor of the release.
func checkPolicies(t *testing.T, e *environment) {
	t.Helper()
	const want = "kedify-http-agent kedify-http-interceptor kedify-http-scaler"
	if got := e.kubectl(other).Do(t, "get", "networkpolicies", "-o", "jsonpath={.items[*].metadata.name}"); got != want {
		t.Errorf("NetworkPolicies %s, want %s", got, want)
	}
	bootstrap := e.kubectl(demo).Do(t, "get", "configmap/kedify-proxy-bootstrap", "-o", "jsonpath={.data}")
	if !strings.Contains(bootstrap, "-metric-sink."+other) || strings.Contains(bootstrap, "-metric-sink.keda") {
		t.Errorf("the bootstrap of the proxies names another namespace than %s: %s", other, bootstrap)
	}
}

// checkReplicas checks the numbers of replicas.
func checkReplicas(t *testing.T, e *environment) {
	t.Helper()
	for deployment, namespace := range map[string]string{
		"keda-add-ons-http-interceptor": keda, "keda-add-ons-http-external-scaler": keda, "kedify-http-agent": keda,
		"kedify-proxy": demo,
	} {
		if got := e.kubectl(namespace).Do(t, "get", "deployment/"+deployment, "-o",
			"jsonpath={.status.readyReplicas}"); got != "2" {
			t.Errorf("%s has %s ready replicas, want 2", deployment, got)
		}
	}
}
