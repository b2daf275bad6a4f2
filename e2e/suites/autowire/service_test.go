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

// clientService is the Service that clients call, of type LoadBalancer. The Rollout has two others.
const clientService = "rollouts-demo"

// services is a cluster with the guide's objects, and a Pod that calls Service clientService.
type services struct {
	*environment

	pod     testbed.ClientPod
	address string // of clientService in the cluster
}

// TestServices lets the agent take over the Service of an application under load: a canary, replaced proxies, killed
// agents, and the way back. Every step has new connections, because open ones stay where they are.
func TestServices(t *testing.T) {
	s := launchServices(t)
	original := s.spec(t)
	s.step(t, "there is no ScaledObject yet", func() {})
	s.step(t, "a ScaledObject comes, and the Service is taken over", func() {
		s.applyScaledObject(t, "trafficAutowire: ingress", "trafficAutowire: service", `port: "80"`,
			`port: "80"`+"\n        service: "+clientService)
		s.awaitSelected(t, proxied)
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
		s.awaitSelected(t, clientService)
	})
	if restored := s.spec(t); restored != original {
		t.Errorf("spec of Service %s, restored: %s\noriginal: %s", clientService, restored, original)
	}
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
	s.until(t, "an answer through Service "+clientService, "blue", func() string {
		color, err := load.Probe(t.Context(), s.target())
		if err != nil {
			return err.Error()
		}
		return color
	})
	return s
}

// target returns the configuration of requests to Service clientService, from a Pod.
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

// awaitSelected waits until Service clientService selects Pods by a value of its label app.
func (s *services) awaitSelected(t *testing.T, value string) {
	t.Helper()
	s.Do(t, "wait", "service/"+clientService, "--for=jsonpath={.spec.selector.app}="+value)
}

// spec returns the spec of Service clientService.
func (s *services) spec(t *testing.T) string {
	t.Helper()
	return s.Do(t, "get", "service/"+clientService, "-o", "jsonpath={.spec}")
}
