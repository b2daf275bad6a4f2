package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestPartsOff runs the agent with exactly the flags and the roles that the chart renders without some of its parts. It
// does what is left, and no request of it is forbidden.
//
//nolint:paralleltest // it replaces the shared cluster
func TestPartsOff(t *testing.T) {
	for _, test := range []struct {
		golden                string // folder in test/chart/testdata
		hasAutowire, hasProxy bool
	}{
		{golden: "without-autowire", hasProxy: true},
		{golden: "without-proxies", hasAutowire: true},
		{golden: "no-autowire"}, // and no proxies, and no webhook
	} {
		t.Run(test.golden, func(t *testing.T) {
			roles, flags := renderedAgent(t, test.golden)
			folder := clusterWithoutRoles(t)
			applyFiles(t, "", append(gatewayAPI(), manifests+"crd/http.keda.sh_httpscaledobjects.yaml")...)
			apply(t, "", roles...)
			startReady(t, folder, flags...)
			team := namespace(t, "team")
			apply(t, team, originalIngress, originalRoute, shop(simple))
			awaitObject(t, team, "shop", "made", there)
			if test.hasProxy {
				awaitParts(t, team, len(proxyParts))
			}
			if test.hasAutowire {
				proxies(t, team, true)
				programmed(t, team, "shop")
				awaitBackends(t, team, "kedify-proxy:8080 cart:80")
			}
			apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, targetValue: "7"}`))
			awaitObject(t, team, "shop", "the new target value", func(object *httpv1alpha1.HTTPScaledObject) bool {
				return object.Spec.ScalingMetric.RequestRate.TargetValue == 7
			})
			remove(t, scaledObject(team, "shop"))
			awaitGone(t, team, "shop")
			if test.hasProxy {
				awaitParts(t, team, 0)
			}
			awaitBackends(t, team, "shop:80 cart:80")
			await.True(t, "the Lease is renewed", func() bool { // as often as a forbidden watch is tried
				return requested(t)["update leases.coordination.k8s.io/kedify-http-agent in keda"]
			})
			log, err := os.ReadFile(filepath.Join(folder, "agent.log"))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(log)) {
				if strings.Contains(line, "forbidden") || strings.Contains(line, "level=ERROR") {
					t.Errorf("the agent's log: %s", line)
				}
			}
		})
	}
}

// renderedAgent returns the roles of the agent in a golden file of the chart, with their bindings, and its flags.
func renderedAgent(t *testing.T, golden string) (roles, flags []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "chart", "testdata", golden, "rendered.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		switch {
		case !strings.HasPrefix(object.Name, "kedify-http-agent"):
		case object.Kind == "ServiceAccount" || strings.Contains(object.Kind, "Role"):
			roles = append(roles, document)
		case object.Kind == "Deployment":
			var deployment appsv1.Deployment
			if err := yaml.Unmarshal([]byte(document), &deployment); err != nil {
				t.Fatal(err)
			}
			flags = deployment.Spec.Template.Spec.Containers[0].Args
		}
	}
	if len(roles) == 0 || len(flags) == 0 {
		t.Fatalf("%s has %d roles and flags %q", golden, len(roles), flags)
	}
	return roles, flags
}
