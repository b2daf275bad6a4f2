package autowire

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// clientService is the Service that clients call, of type LoadBalancer. The Rollout has two others. bareService has no
// selector, like those of Kedify's users.
const clientService, bareService = "rollouts-demo", "rollouts-demo-bare"

// services is a cluster with the guide's objects, and a Pod that calls Service clientService.
type services struct {
	*environment

	pod     testbed.ClientPod
	address string // of the Service in the cluster
}

// TestServices lets the agent take over the Service of an application under load: a canary, replaced proxies, killed
// agents, and the way back. Every step has new connections, because open ones stay where they are.
func TestServices(t *testing.T) {
	s := launchServices(t)
	original := s.spec(t)
	s.step(t, "there is no ScaledObject yet", func() {})
	s.step(t, "a ScaledObject comes, and the Service is taken over", func() {
		s.takeOver(t, clientService)
	})
	s.step(t, "a canary at 20 %", func() {
		s.setImage(t)
		s.checkSplit(t, "Service "+clientService, s.target())
	})
	s.step(t, "the proxies are replaced", func() { s.restart(t, namespace, "deployment/kedify-proxy") })
	s.step(t, "the agents are killed", func() {
		s.Do(t, "delete", "pod", "-n", "keda", "-l", "app.kubernetes.io/component=agent", "--grace-period=0", "--force")
		s.Do(t, "rollout", "status", "-n", "keda", agents)
	})
	s.step(t, "the canary is promoted", func() {
		s.Argo(t, "promote", "rollouts-demo")
		s.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy")
	})
	s.step(t, "the user disables autowiring", func() {
		s.autowire(t, "false")
		s.awaitSelected(t, clientService, clientService)
	})
	if restored := s.spec(t); restored != original {
		t.Errorf("spec of Service %s, restored: %s\noriginal: %s", clientService, restored, original)
	}
	s.address = s.ServiceAddress(t, bareService)
	s.takeOver(t, bareService)
	s.awaitAnswer(t, "yellow")
	s.step(t, "a Service that had no selector", func() { s.restart(t, namespace, "deployment/kedify-proxy") })
	s.step(t, "the user disables autowiring again", func() {
		s.autowire(t, "false")
		s.awaitSelected(t, bareService, clientService)
	})
}

// takeOver applies the ScaledObject with a Service that clients call, and waits until the Service selects the proxies.
func (s *services) takeOver(t *testing.T, service string) {
	t.Helper()
	s.applyScaledObject(t, "trafficAutowire: ingress", "trafficAutowire: service", `port: "80"`,
		`port: "80"`+"\n        service: "+service)
	s.awaitSelected(t, service, proxied)
}

// launchServices starts a cluster with the guide's objects, without the ScaledObject, and waits until the application
// responds to a client in the cluster.
func launchServices(t *testing.T) *services {
	t.Helper()
	cluster, repo := testbed.Launch(t, provider.Spec{Addons: []string{"keda"}})
	node, err := inside.Open(cluster.Node)
	if err != nil {
		t.Fatal(err)
	}
	s := &services{environment: &environment{
		Kubectl: testbed.Kubectl{Cluster: cluster, Namespace: namespace}, repo: repo, rate: rate(t), stalls: stall.Watch(t),
	}}
	s.CreateNamespace(t, namespace)
	s.ExplainFailure(t,
		[]string{"get", "services,endpointslices,scaledobject,httpso,rollout", "-o", "yaml"}, []string{"get", "pods,events"},
		[]string{"logs", "-n", "keda", agents, "--all-pods", "--tail=60"})
	s.Do(t, "apply", "-f", testbed.LimitRangeFile(repo))
	s.Do(t, "apply", "-f", testbed.Example(t, repo, host, "manifests.yaml")[0])
	s.Do(t, "apply", "-f", filepath.Join(repo, "e2e", "suites", "autowire", "service.yaml"))
	s.Do(t, "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy")
	s.pod, s.address = s.StartClientPod(t, node, "client"), s.ServiceAddress(t, clientService)
	s.awaitAnswer(t, "blue")
	return s
}

// awaitAnswer waits until the application responds with a color.
func (s *services) awaitAnswer(t *testing.T, color string) {
	t.Helper()
	s.until(t, "an answer through a Service", color, func() string {
		answer, err := load.Probe(t.Context(), s.target())
		if err != nil {
			return err.Error()
		}
		return answer
	})
}

// target returns the configuration of requests to a Service, from a Pod.
func (s *services) target() load.Config {
	return load.Config{
		Address: s.address, Dial: s.pod.DialContext, Host: host, Path: "/color", Rate: float64(s.rate),
		Timeout: await.Patience(), MaxInFlight: s.rate * int(await.Patience().Seconds()), Colors: []string{"blue", "yellow"},
	}
}

// step makes a change under load. No request may fail.
func (s *services) step(t *testing.T, name string, change func()) {
	t.Helper()
	client, err := load.Start(t.Context(), s.target())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	began := time.Now()
	change()
	duration := time.Since(began)
	//testbounds:allow requests go on for a while after the change
	<-time.After(loadAfterChange)
	totals, _ := client.Stop()
	t.Logf("%-56s after %5.1f s, %d of %d requests failed %v", name, duration.Seconds(), totals.Failed, totals.Ended,
		totals.Reasons)
	if totals.Failed > 0 || totals.Ended == 0 {
		invariant.Broken(t, invariant.FailedRequests, "%s: %d of %d: %v", name, totals.Failed, totals.Ended, totals.Reasons)
	}
}

// awaitSelected waits until a Service selects Pods by a value of its label app.
func (s *services) awaitSelected(t *testing.T, service, value string) {
	t.Helper()
	s.Do(t, "wait", "service/"+service, "--for=jsonpath={.spec.selector.app}="+value)
}

// spec returns the spec of Service clientService.
func (s *services) spec(t *testing.T) string {
	t.Helper()
	return s.Do(t, "get", "service/"+clientService, "-o", "jsonpath={.spec}")
}
