package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// inGit is a route in a Git repository.
const inGit = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: shop, labels: {team: a}}
spec:
  hostnames: [shop.example.com]
  rules:
    - name: api
      matches: [{path: {type: PathPrefix, value: /api}}]
      backendRefs:
        - {group: "", kind: Service, name: shop-stable, port: 80, weight: 100}
        - {group: "", kind: Service, name: shop-canary, port: 80, weight: 0}
    - name: docs
      matches: [{path: {type: PathPrefix, value: /docs}, headers: [{type: Exact, name: tenant, value: a}]}]
      backendRefs:
        - {group: "", kind: Service, name: docs, port: 80, weight: 1}
`

// recipe returns the jqPathExpressions of the block with this mark in a page.
func recipe(t *testing.T, file, mark string) []string {
	t.Helper()
	parsed := readRecipe(t, file, mark)
	if len(parsed.IgnoreDifferences) != 1 {
		t.Fatalf("the block %q is not a list of one ignoreDifferences", mark)
	}
	return parsed.IgnoreDifferences[0].JQPathExpressions
}

// syncOptions returns the sync options of the block with this mark in a page.
func syncOptions(t *testing.T, file, mark string) []string {
	t.Helper()
	return readRecipe(t, file, mark).SyncPolicy.SyncOptions
}

// argoCD is the part of an Application that the pages show.
type argoCD struct {
	IgnoreDifferences []struct{ JQPathExpressions []string }
	SyncPolicy        struct{ SyncOptions []string }
}

// readRecipe returns the block with this mark in a page.
func readRecipe(t *testing.T, file, mark string) (parsed argoCD) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml " + mark + "\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatalf("the page has no block %q", mark)
	}
	if err := yaml.Unmarshal(block[1], &parsed); err != nil {
		t.Fatalf("the block %q: %v", mark, err)
	}
	return parsed
}

// normalized returns the part of an object that Argo CD compares. Argo CD deletes each expression separately (argo-cd
// util/argo/normalizers, the same in versions 2 and 3). It ignores status, and labels and annotations that are not in
// Git.
func normalized(t *testing.T, object map[string]any, expressions []string) map[string]any {
	t.Helper()
	var current any = plain(t, object)
	for _, expression := range expressions {
		query, err := gojq.Parse("del(" + expression + ")")
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		results := query.Run(current)
		result, _ := results.Next()
		if _, more := results.Next(); more {
			t.Fatalf("%s: more than one result", expression)
		}
		if err, failed := result.(error); failed {
			t.Fatalf("%s: %v", expression, err)
		}
		current = result
	}
	return current.(map[string]any)["spec"].(map[string]any)
}

// plain returns an object with the types of encoding/json.
func plain(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	copied := map[string]any{}
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	return copied
}

// inCanary returns the route during a canary, with the label.
func inCanary(
	t *testing.T, git map[string]any, weights route.Weights, managed []route.ManagedRoute, sessions route.Sessions,
	named bool,
) map[string]any {
	t.Helper()
	live, _, err := route.Apply(git, route.Intent{
		Kind: route.HTTPRoute, Rollout: "shop/shop", UID: "u", Namespace: "shop", Stable: "shop-stable",
		Canary:  "shop-canary",
		Weights: &weights, ManagedRoutes: &managed, HasRuleNames: named, Sessions: sessions, HasSessions: true,
		Label: &route.Label{Key: "rollouts.argoproj.io/gatewayapi-canary", Value: "in-progress"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// TestArgoCDByLabelAlone: an expression that selects by the label creates a difference, because the label is not in
// Git.
func TestArgoCDByLabelAlone(t *testing.T) {
	git := map[string]any{}
	if err := yaml.Unmarshal([]byte(inGit), &git); err != nil {
		t.Fatal(err)
	}
	live := inCanary(t, git, route.Weights{Stable: 80, Canary: 20}, nil, route.Sessions{}, true)
	byLabel := []string{
		`select(.metadata.labels["rollouts.argoproj.io/gatewayapi-canary"] == "in-progress") | .spec.rules`,
	}
	if cmp.Equal(normalized(t, git, byLabel), normalized(t, live, byLabel)) {
		t.Error("Argo CD shows no difference: correct the page")
	}
}

// TestArgoCDRecipe: with the recipe, Argo CD shows no difference between Git and a route in any state of a canary, but
// shows other changes.
func TestArgoCDRecipe(t *testing.T) {
	git := map[string]any{}
	if err := yaml.Unmarshal([]byte(inGit), &git); err != nil {
		t.Fatal(err)
	}
	managed := []route.ManagedRoute{
		{Name: "qa", Header: []route.HeaderMatch{{Name: "role", Type: route.Exact, Value: "qa"}}},
		{
			Name: "copy",
			Mirror: &route.Mirror{
				Percent: 100,
				Matches: []route.MirrorMatch{{Headers: []route.HeaderMatch{{Name: "role", Type: route.Prefix, Value: "d"}}}},
			},
		},
	}
	experiment := []route.Destination{{Service: "shop-candidate", Weight: 10}}
	states := map[string]struct {
		weights  route.Weights
		managed  []route.ManagedRoute
		sessions route.Sessions // only CRDs with names of rules can have them
	}{
		"at rest":               {weights: route.Weights{Stable: 100}},
		"weights":               {weights: route.Weights{Stable: 80, Canary: 20}},
		"a header route alone":  {weights: route.Weights{Stable: 100}, managed: managed[:1]},
		"header and mirror":     {weights: route.Weights{Stable: 50, Canary: 50}, managed: managed},
		"an experiment as well": {weights: route.Weights{Stable: 70, Canary: 20, Others: experiment}, managed: managed},
		"sessions": {
			weights: route.Weights{Stable: 80, Canary: 20}, managed: managed, sessions: route.Sessions{Name: "side", MaxAge: 90},
		},
	}
	for name, state := range states {
		for mark, named := range map[string]bool{"argocd": true, "argocd-unnamed": false} {
			if !named && state.sessions != (route.Sessions{}) {
				continue
			}
			t.Run(name+"/"+mark, func(t *testing.T) {
				live := inCanary(t, git, state.weights, state.managed, state.sessions, named)
				expressions := recipe(t, "docs/how-to/gateway-api-gitops.md", mark)
				want := normalized(t, git, expressions)
				if diff := cmp.Diff(want, normalized(t, live, expressions)); diff != "" {
					t.Errorf("Argo CD shows a difference (-git +live):\n%s", diff)
				}
				rules := live["spec"].(map[string]any)["rules"].([]any)
				rules[len(rules)-1].(map[string]any)["timeouts"] = map[string]any{"request": "1s"}
				if cmp.Equal(want, normalized(t, live, expressions)) {
					t.Error("Argo CD does not show a change of a rule")
				}
			})
		}
	}
}
