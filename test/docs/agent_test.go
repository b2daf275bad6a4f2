package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// agentPage describes the agent.
const agentPage = "docs/reference/agent.md"

// scaledInGit is a ScaledObject in a Git repository.
const scaledInGit = `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: shop, namespace: shop}
spec:
  scaleTargetRef: {name: shop}
  triggers:
    - {type: cpu, metricType: Utilization, metadata: {value: "50"}}
    - {type: kedify-http, metadata: {hosts: shop.test, port: "80", service: shop}}
    - {type: external-push, metadata: {scalerAddress: "other:1"}}
`

// converted returns scaledInGit after the agent has converted it.
func converted(t *testing.T) map[string]any {
	t.Helper()
	var typed apis.ScaledObject
	live := map[string]any{}
	for _, target := range []any{&typed, &live} {
		if err := yaml.Unmarshal([]byte(scaledInGit), target); err != nil {
			t.Fatal(err)
		}
	}
	triggers := live["spec"].(map[string]any)["triggers"].([]any)
	ours := triggers[1].(map[string]any)
	for _, operation := range desired.Convert(&typed, nil, "scaler.keda:9090") {
		path := strings.TrimPrefix(operation.Path, "/spec/triggers/1/")
		if key, inMetadata := strings.CutPrefix(path, "metadata/"); inMetadata {
			ours["metadata"].(map[string]any)[key] = operation.Value
			continue
		}
		ours[path] = operation.Value
	}
	if ours["type"] != trigger.TypePush {
		t.Fatalf("not converted: %v", ours)
	}
	return live
}

// TestArgoCDIgnoresConversion: with the page's recipe Argo CD shows no difference after the conversion, but shows other
// changes.
func TestArgoCDIgnoresConversion(t *testing.T) {
	git := map[string]any{}
	if err := yaml.Unmarshal([]byte(scaledInGit), &git); err != nil {
		t.Fatal(err)
	}
	live, expressions := converted(t), recipe(t, agentPage, "argocd")
	want := normalized(t, git, expressions)
	if cmp.Equal(normalized(t, git, nil), normalized(t, live, nil)) {
		t.Error("the conversion makes no difference: the test proves nothing")
	}
	if diff := cmp.Diff(want, normalized(t, live, expressions)); diff != "" {
		t.Errorf("Argo CD shows a difference (-git +live):\n%s", diff)
	}
	for index, key := range map[int]string{0: "value", 1: "hosts", 2: "scalerAddress"} {
		changed := converted(t)
		of := changed["spec"].(map[string]any)["triggers"].([]any)[index].(map[string]any)
		of["metadata"].(map[string]any)[key] = "changed"
		if cmp.Equal(want, normalized(t, changed, expressions)) {
			t.Errorf("Argo CD does not show a change of %s of trigger %d", key, index)
		}
	}
}

// TestArgoCDIgnoresTheHash: with the page's recipe Argo CD shows no difference after the Argo Rollouts controller has
// changed the selector of a Service, but shows other changes of it.
func TestArgoCDIgnoresTheHash(t *testing.T) {
	selecting := func(selector map[string]any) map[string]any {
		return map[string]any{"spec": map[string]any{"selector": selector}}
	}
	const hash = "rollouts-pod-template-hash"
	expressions := recipe(t, "docs/how-to/gitops.md", "argocd-selectors")
	want := normalized(t, selecting(map[string]any{"app": "shop"}), expressions)
	live := selecting(map[string]any{"app": "shop", hash: "abc"})
	if diff := cmp.Diff(want, normalized(t, live, expressions)); diff != "" {
		t.Errorf("Argo CD shows a difference (-git +live):\n%s", diff)
	}
	other := selecting(map[string]any{"app": "other", hash: "abc"})
	if cmp.Equal(want, normalized(t, other, expressions)) {
		t.Error("Argo CD does not show another selector")
	}
}

// TestArgoCDWritesOnlyChangedObjects: each recipe has the sync option without which any commit writes the fields of Git.
func TestArgoCDWritesOnlyChangedObjects(t *testing.T) {
	for file, marks := range map[string][]string{
		"docs/how-to/gitops.md": {"argocd-selectors"}, "docs/how-to/autowire.md": {"argocd", "argocd-httproute"},
		"docs/how-to/gateway-api-gitops.md": {"argocd"}, agentPage: {"argocd"},
	} {
		for _, mark := range marks {
			if options := syncOptions(t, file, mark); !slices.Contains(options, "ApplyOutOfSyncOnly=true") ||
				slices.Contains(options, "RespectIgnoreDifferences=true") {
				t.Errorf("%s: the recipe %s has the sync options %v", file, mark, options)
			}
		}
	}
}

// TestTriggerKeysTable compares the page's tables of trigger keys and their defaults with the program.
func TestTriggerKeysTable(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, configurationPage))
	if err != nil {
		t.Fatal(err)
	}
	for triggerType, keys := range map[string][]trigger.Key{
		trigger.TypeHTTP: trigger.Keys(), trigger.TypeEnvoyHTTP: trigger.ExternalKeys(),
	} {
		known := map[string]string{}
		for _, key := range keys {
			known[key.Name] = key.Default
		}
		if triggerType == trigger.TypeHTTP {
			known["healthcheckResponse"] = string(trigger.HealthcheckPassthrough) // the default together with healthcheckPath only
		}
		defaults := keysOnPage(string(page), triggerType)
		if diff := cmp.Diff(known, defaults); diff != "" {
			text, _ := json.Marshal(defaults)
			t.Errorf("keys of %s and defaults (-program +page):\n%s%s", triggerType, diff, text)
		}
	}
}

// keysOnPage returns the keys of a type of triggers, and their defaults, in the page's table.
func keysOnPage(page, triggerType string) map[string]string {
	_, section, _ := strings.Cut(page, "## The trigger "+triggerType+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	defaults := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-zA-Z` /]+`) \\| (.*?) \\|").FindAllStringSubmatch(section, -1) {
		for _, key := range regexp.MustCompile("`([a-zA-Z]+)`").FindAllStringSubmatch(row[1], -1) {
			defaults[key[1]] = ""
			if value, quoted := strings.CutPrefix(row[2], "`"); quoted {
				defaults[key[1]] = strings.TrimSuffix(value, "`")
			}
		}
	}
	return defaults
}
