package gatewaydocs_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	rolloutstypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// TestPages applies the manifests of every page and runs its Rollouts. After each the routes are unchanged.
func TestPages(t *testing.T) {
	rollouts, expectations := 0, 0
	for _, page := range pages(t) {
		t.Run(page.name, func(t *testing.T) {
			page.apply(t)
			for _, rollout := range page.rollouts {
				t.Run(rollout.Name, func(t *testing.T) { page.play(t, rollout) })
			}
			for _, expected := range page.expected {
				if !expected.seen {
					t.Errorf("nothing plays %s %s up to step %s", expected.route.Kind, expected.route.Metadata.Name, expected.step)
				}
			}
		})
		rollouts += len(page.rollouts)
		expectations += len(page.expected)
	}
	if rollouts < 5 || expectations < 5 {
		t.Errorf("only %d Rollouts and %d expectations were found in the pages", rollouts, expectations)
	}
}

// apply applies the page's manifests, strictly.
func (p *page) apply(t *testing.T) {
	t.Helper()
	namespace := "{apiVersion: v1, kind: Namespace, metadata: {name: " + p.namespace() + "}}"
	if err := apiserver.Apply(t.Context(), admin, p.namespace(),
		append([]string{namespace}, p.manifests...)...); err != nil {
		t.Fatal(err)
	}
}

// play makes the controller's calls for one canary of a Rollout, without waiting.
func (p *page) play(t *testing.T, rollout v1alpha1.Rollout) {
	t.Helper()
	rollout.UID = types.UID(p.name + "-" + rollout.Name) // the key of the plugin's state between calls
	rollout.Annotations = map[string]string{"rollout.argoproj.io/revision": "2"}
	must(t, "before the canary", plugin.SetWeight(&rollout, 0, nil))
	before := p.routes(t)
	rollout.Status.StableRS, rollout.Status.CurrentPodHash = "old", "new"
	weight := int32(0)
	for i, step := range rollout.Spec.Strategy.Canary.Steps {
		index := int32(i)
		rollout.Status.CurrentStepIndex = &index
		if step.SetHeaderRoute != nil {
			must(t, fmt.Sprint("setHeaderRoute of step ", i), plugin.SetHeaderRoute(&rollout, step.SetHeaderRoute))
		}
		if step.SetMirrorRoute != nil {
			must(t, fmt.Sprint("setMirrorRoute of step ", i), plugin.SetMirrorRoute(&rollout, step.SetMirrorRoute))
		}
		if step.SetWeight != nil {
			weight = *step.SetWeight
		}
		must(t, fmt.Sprint("SetWeight at step ", i), plugin.SetWeight(&rollout, weight, destinations(step)))
		p.compare(t, strconv.Itoa(i))
	}
	end := int32(len(rollout.Spec.Strategy.Canary.Steps))
	rollout.Status.CurrentStepIndex, rollout.Status.StableRS = &end, "new"
	must(t, "RemoveManagedRoutes", plugin.RemoveManagedRoutes(&rollout))
	must(t, "SetWeight after the promotion", plugin.SetWeight(&rollout, 0, nil))
	if diff := cmp.Diff(before, p.routes(t)); diff != "" {
		t.Errorf("the routes after the promotion (-before +after):\n%s", diff)
	}
}

// destinations returns the Services of a step's experiment.
func destinations(step v1alpha1.CanaryStep) []v1alpha1.WeightDestination {
	var others []v1alpha1.WeightDestination
	if step.Experiment != nil {
		for _, template := range step.Experiment.Templates {
			others = append(others, v1alpha1.WeightDestination{ServiceName: template.Service.Name, Weight: *template.Weight})
		}
	}
	return others
}

// must fails the test if a call returned an error.
func must(t *testing.T, what string, answer rolloutstypes.RpcError) {
	t.Helper()
	if answer.HasError() {
		t.Fatalf("%s: %s", what, answer.ErrorString)
	}
}

// compare compares the routes that the page shows for a step with the live ones.
func (p *page) compare(t *testing.T, step string) {
	t.Helper()
	for i := range p.expected {
		expected := &p.expected[i]
		if expected.step != step || expected.seen {
			continue
		}
		live := p.read(t, expected.route)
		rules := live["spec"].(map[string]any)["rules"]
		if _, canary := live["metadata"].(map[string]any)["annotations"]; !canary {
			continue // a route of another Rollout of the page
		}
		expected.seen = true
		if diff := cmp.Diff(expected.rules, withoutDefaults(rules)); diff != "" {
			t.Errorf("%s %s at step %s (-page +route):\n%s", expected.route.Kind, expected.route.Metadata.Name, step, diff)
		}
	}
}

// routes returns the live routes of the page, without what the API server adds.
func (p *page) routes(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, manifest := range p.manifests {
		object := manifestOf(t, manifest)
		if !strings.HasSuffix(object.Kind, "Route") {
			continue
		}
		read := p.read(t, object)
		metadata := read["metadata"].(map[string]any)
		all[object.Kind+" "+object.Metadata.Name] = []any{metadata["labels"], metadata["annotations"], read["spec"]}
	}
	return all
}

// read reads an object of the page.
func (p *page) read(t *testing.T, object apiserver.Manifest) map[string]any {
	t.Helper()
	text, err := admin.Get().AbsPath(object.Path(p.namespace())).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]any{}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// withoutDefaults removes the default group and kind that the API server adds to backendRefs.
func withoutDefaults(value any) any {
	switch value := value.(type) {
	case []any:
		return slices.Collect(func(yield func(any) bool) {
			for _, element := range value {
				if !yield(withoutDefaults(element)) {
					return
				}
			}
		})
	case map[string]any:
		if value["kind"] == "Service" && value["group"] == "" {
			delete(value, "kind")
			delete(value, "group")
		}
		for key := range value {
			value[key] = withoutDefaults(value[key])
		}
	}
	return value
}
