package config_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
)

// TestSelectors: the selectors of Deployments are those of all earlier versions, because they are immutable: with
// another one, an upgrade would have to delete the Deployment.
func TestSelectors(t *testing.T) {
	t.Parallel()
	want := map[string]map[string]string{"kedify-proxy": {"app": "kedify-proxy"}}
	for _, name := range []string{"agent", "interceptor", "scaler"} {
		want[name] = map[string]string{"app.kubernetes.io/name": "http-add-on", "app.kubernetes.io/component": name}
	}
	got := map[string]map[string]string{}
	for name, c := range components(t) {
		got[name] = c.deployment.Spec.Selector.MatchLabels
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("selectors (-want +got):\n%s", diff)
	}
}

// TestLabels: Pods of the components have the labels of this project, and no selector of another product selects them,
// also with the labels that an installation adds.
func TestLabels(t *testing.T) {
	t.Parallel()
	const prefix = "app.kubernetes.io/"
	others := map[string]labels.Set{
		"the chart of the KEDA HTTP add-on": {
			prefix + "part-of": "keda-add-ons-http", prefix + "managed-by": "Helm", prefix + "instance": "http-add-on",
			prefix + "component": "interceptor",
		},
		"the manifests of the KEDA HTTP add-on": {
			prefix + "component": "add-on", prefix + "instance": "interceptor", prefix + "name": "http",
			prefix + "part-of": "keda",
		},
		"Argo Rollouts": {prefix + "name": "argo-rollouts"},
		"KEDA":          {"app": "keda-operator"},
	}
	for name, c := range components(t) {
		if name == "kedify-proxy" {
			continue // It belongs to a namespace of applications.
		}
		template := c.deployment.Spec.Template.Labels
		for object, got := range map[string]map[string]string{"Deployment": c.deployment.Labels, "Pods": template} {
			want := map[string]string{
				prefix + "name": "http-add-on", prefix + "component": name, prefix + "part-of": "kedify-http",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: labels of the %s (-want +got):\n%s", name, object, diff)
			}
		}
		installed := labels.Set(maps.Clone(template))
		installed[prefix+"instance"], installed[prefix+"managed-by"] = "kedify-http", "Helm"
		for product, selector := range others {
			if selector.AsSelector().Matches(installed) {
				t.Errorf("%s: %s selects the Pods by %s", name, product, selector)
			}
		}
	}
}
