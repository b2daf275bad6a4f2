package refusals_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// allToCanary is a split that sends everything to the canary: one request shows whether it is active.
const allToCanary = "[{service: shop-stable, weight: 0}, {service: shop-canary, weight: 100}]"

// objectPath returns the REST path of an HTTPScaledObject.
func objectPath(namespace, name string) string {
	return "/apis/" + httpv1alpha1.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/" + httpv1alpha1.Resource +
		"/" + name
}

// hostName returns the host of an HTTPScaledObject.
func hostName(namespace, name string) string { return name + "." + namespace + ".test" }

// app returns the manifests of a Service with port 80 named http, and of its EndpointSlice with one endpoint: the app
// with the suffix of the name, stable or canary.
func (s *environment) app(service string) string {
	ending := service[strings.LastIndexByte(service, '-')+1:]
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: %[2]d}]
endpoints: [{addresses: [%[3]s], conditions: {ready: true}}]
`, service, s.ports[ending], netspace.Address())
}

// scaledObject returns the manifest of an HTTPScaledObject with the Service name-stable. The shared proxies serve it.
func scaledObject(name, host, annotation string) string {
	return fmt.Sprintf(`
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata: {name: %s, annotations: {http.kedify.io/fleet: shared, %s: %q}}
spec: {hosts: [%s], scaleTargetRef: {service: %[1]s-stable, port: 80}}
`, name, httpv1alpha1.AnnotationWeightedBackends, annotation, host)
}

// createNamespace creates a namespace with the apps shop and neighbour, each with an HTTPScaledObject that sends
// everything to the canary, and waits until both are served.
func (s *environment) createNamespace(t *testing.T, namespace string) {
	t.Helper()
	s.apply(t, "", `{apiVersion: v1, kind: Namespace, metadata: {name: `+namespace+`}}`)
	for _, name := range []string{"shop", "neighbour"} {
		s.apply(t, namespace, s.app(name+"-stable"), s.app(name+"-canary"),
			scaledObject(name, hostName(namespace, name), strings.ReplaceAll(allToCanary, "shop", name)))
	}
	for _, name := range []string{"shop", "neighbour"} {
		s.expectConditions(t, namespace, name, accepted())
		expectAnswers(t, hostName(namespace, name), "canary")
	}
}

// checkNeighbour changes the neighbor's weight through the plugin, and checks that the data plane reports it and the
// requests follow.
func (s *environment) checkNeighbour(t *testing.T, namespace string) {
	t.Helper()
	rollout := routertest.Rollout(httpso.Type, `{"httpScaledObjectName":"neighbour"}`)
	rollout.Namespace, rollout.Name, rollout.UID = namespace, "neighbour", apitypes.UID("uid-of-neighbour-in-"+namespace)
	canary := rollout.Spec.Strategy.Canary
	canary.StableService, canary.CanaryService = "neighbour-stable", "neighbour-canary"
	host := hostName(namespace, "neighbour")

	s.setWeight(t, rollout, 0)
	expectAnswers(t, host, "stable")
	s.setWeight(t, rollout, 50)
	await.True(t, "the canary answers for "+host, func() bool { return answers(t, host, 1)["canary"] == 1 })
	// 200 requests at one half have a standard deviation of 7: counts outside these bounds are not chance.
	if got := answers(t, host, 200); got["stable"] < 60 || got["canary"] < 60 || got["stable"]+got["canary"] != 200 {
		t.Errorf("at weight 50 the answers for %s are from %v", host, got)
	}
	s.setWeight(t, rollout, 100)
	expectAnswers(t, host, "canary")
}

// setWeight sets a weight and waits until the proxies have it.
func (s *environment) setWeight(t *testing.T, rollout *v1alpha1.Rollout, weight int32) {
	t.Helper()
	if answer := s.plugin.SetWeight(rollout, weight, nil); answer.HasError() {
		t.Fatalf("SetWeight(%d) of the neighbour: %v", weight, answer)
	}
	await.True(t, fmt.Sprintf("weight %d of the neighbour is verified", weight), func() bool {
		verified, answer := s.plugin.VerifyWeight(rollout, weight, nil)
		if answer.HasError() {
			t.Fatalf("VerifyWeight(%d) of the neighbour: %v", weight, answer)
		}
		return verified == types.Verified
	})
}
