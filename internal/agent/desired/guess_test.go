package desired_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// TestServiceOfARollout edits the Service in the trigger of a Rollout. The Rollout's own Service applies to a new
// object instead of an invalid one. An existing object keeps its own, unless it is one of two that alternate.
func TestServiceOfARollout(t *testing.T) {
	t.Parallel()
	const pingPong = `{spec: {strategy: {canary: {pingPong: {pingService: ping, pongService: pong}}}}}`
	for name, c := range map[string]struct {
		key, value, rollout string
		current, want       string // of the object; current is empty for none
		status              metav1.ConditionStatus
	}{
		"new":                 {"service", "web_", canary, "", "shop-stable", metav1.ConditionTrue},
		"another Service":     {"service", "web_", canary, "web", "web", metav1.ConditionFalse},
		"the stable Service":  {"service", "web_", canary, "shop-stable", "shop-stable", metav1.ConditionTrue},
		"no Rollout":          {"service", "web_", "", "web", "web", metav1.ConditionFalse},
		"it alternates":       {"service", "web_", pingPong, "ping", "pong", metav1.ConditionTrue},
		"another alternates":  {"service", "web_", pingPong, "web", "web", metav1.ConditionFalse},
		"misspelled key, new": {"servcie", "web", canary, "", "shop-stable", metav1.ConditionTrue},
		"misspelled key":      {"servcie", "web", canary, "web", "web", metav1.ConditionTrue},
		"removed":             {"service", "", canary, "web", "shop-stable", metav1.ConditionTrue},
		"corrected":           {"service", "web", canary, "shop-stable", "web", metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scaled := shop(t, `[{type: kedify-http, metadata: {hosts: a.test, port: "80", `+c.key+`: "`+c.value+`"}}]`)
			var rollout *apis.Rollout
			if c.rollout != "" {
				rollout = read[apis.Rollout](t, c.rollout)
			}
			var existing []*httpv1alpha1.HTTPScaledObject
			if c.current != "" {
				object := read[httpv1alpha1.HTTPScaledObject](t, made)
				object.Spec.ScaleTargetRef = httpv1alpha1.ScaleTargetRef{
					APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "shop", Service: c.current, Port: 80,
				}
				existing = append(existing, object)
			}
			changes := desired.Compare(scaled, desired.Desired(scaled, rollout, address), existing)
			written := slices.Concat(changes.Create, changes.Update)
			if len(written) != 1 || written[0].Spec.ScaleTargetRef.Service != c.want ||
				changes.Conditions["shop"][0].Status != c.status {
				t.Errorf("%+v, changes %+v", written, changesOf(changes))
			}
		})
	}
}

// TestMissingHostsOfOneTrigger has two triggers for paths of one host. One loses its hosts by an edit. Its object keeps
// them: without them it would lose its path to the other, or in the shared fleet all requests.
func TestMissingHostsOfOneTrigger(t *testing.T) {
	t.Parallel()
	scaled := func(hosts string) *apis.ScaledObject {
		return shop(t, `[{type: kedify-http, metadata: {hosts: "`+hosts+`", pathPrefixes: /api, port: "80"}},
			{type: kedify-http, name: web, metadata: {hosts: a.test, pathPrefixes: /, port: "80"}}]`)
	}
	rollout := read[apis.Rollout](t, canary)
	for _, fleet := range []string{"", httpv1alpha1.FleetShared} {
		before := scaled("a.test")
		objects := desired.Compare(before, desired.Desired(before, rollout, address), nil).Create
		for _, object := range objects {
			object.Annotations[httpv1alpha1.AnnotationFleet] = fleet
		}
		for hosts, want := range map[string]string{"": "a.test", " ": "a.test", "*": "*"} {
			edited := scaled(hosts)
			changes := desired.Compare(edited, desired.Desired(edited, rollout, address), objects)
			got := objects[0].Spec.Hosts
			if len(changes.Update) > 0 {
				got = changes.Update[0].Spec.Hosts
			}
			if !slices.Equal(got, []string{want}) || len(changes.Update) > 1 || len(changes.Delete) > 0 {
				t.Errorf("fleet %q, hosts %q: %q, changes %+v", fleet, hosts, got, changesOf(changes))
			}
		}
	}
}

// TestAllHostsAreNotNarrowed has an object for all hosts, whose trigger gets a list with an invalid one.
func TestAllHostsAreNotNarrowed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fleet, hosts  string
		current, want []string
	}{
		"all":                      {"", "a.test,b test", nil, nil},
		"by a star":                {"", "a.test,b test", []string{"*"}, []string{"a.test", "*"}},
		"corrected":                {"", "a.test", nil, []string{"a.test"}},
		"none in the shared fleet": {httpv1alpha1.FleetShared, "a.test,b test", nil, []string{"a.test"}},
	} {
		scaled := read[apis.ScaledObject](t, full)
		scaled.Spec.Triggers[0].Metadata["hosts"] = c.hosts
		object := read[httpv1alpha1.HTTPScaledObject](t, made)
		object.Annotations[httpv1alpha1.AnnotationFleet] = c.fleet
		object.Spec.Hosts = c.current
		for _, update := range compareWith(scaled, object).Update {
			object.Spec = update.Spec
		}
		if !slices.Equal(object.Spec.Hosts, c.want) {
			t.Errorf("%s: %q, want %q", name, object.Spec.Hosts, c.want)
		}
	}
}
