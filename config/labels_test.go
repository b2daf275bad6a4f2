package config_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
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

// TestPodMonitors: one PodMonitor selects the Pods of the components, and the other one those of the proxies, also if
// an installation adds the labels of this project to all Pods.
func TestPodMonitors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("prometheus/podmonitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var monitor struct {
			Metadata metav1.ObjectMeta
			Spec     struct{ Selector metav1.LabelSelector }
		}
		if err := yaml.Unmarshal([]byte(document), &monitor); err != nil {
			t.Fatal(err)
		}
		selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
		if err != nil {
			t.Fatalf("PodMonitor %s: %v", monitor.Metadata.Name, err)
		}
		for name, c := range components(t) {
			installed := labels.Set(maps.Clone(c.deployment.Spec.Template.Labels))
			installed["app.kubernetes.io/part-of"], installed["app.kubernetes.io/instance"] = "kedify-http", "kedify-http"
			if selector.Matches(installed) {
				got[monitor.Metadata.Name] = append(got[monitor.Metadata.Name], name)
			}
		}
		slices.Sort(got[monitor.Metadata.Name])
	}
	want := map[string][]string{
		"kedify-http": {"agent", "interceptor", "scaler"}, "kedify-proxy": {"kedify-proxy"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("selected Pods (-want +got):\n%s", diff)
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
