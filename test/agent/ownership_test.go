package agent_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// applyUnforced applies a manifest of ScaledObject shop by server-side apply without force, as Helm 4 and kubectl do.
func applyUnforced(t *testing.T, namespace, manager, manifest string) error {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return shared.admin.Patch(types.ApplyPatchType).AbsPath(scaledObject(namespace, "shop")).
		Param("fieldManager", manager).Body(body).Do(t.Context()).Error()
}

// awaitConverted waits until the trigger of ScaledObject shop is converted and has a host, and the agent manages no
// trigger.
func awaitConverted(t *testing.T, namespace, host string) {
	t.Helper()
	var found scaled
	await.True(t, "the trigger is converted, and the agent manages none", func() bool {
		found = scaled{}
		if !get(t, scaledObject(namespace, "shop"), &found) || found.Spec.Triggers[0]["type"] != "external-push" {
			return false
		}
		metadata, _ := found.Spec.Triggers[0]["metadata"].(map[string]any)
		return metadata["hosts"] == host && !managesTriggers(found.ManagedFields)
	})
}

// managesTriggers reports whether the agent manages the triggers.
func managesTriggers(entries []metav1.ManagedFieldsEntry) bool {
	for _, entry := range entries {
		if entry.Manager == httpv1alpha1.ManagedByAgent && entry.FieldsV1 != nil &&
			strings.Contains(string(entry.FieldsV1.Raw), "f:triggers") {
			return true
		}
	}
	return false
}

// TestAuthorChangesConvertedTriggers has a chart whose tool never forces server-side apply, as Helm 4, in a namespace
// without the webhook: the agent converts each version of the trigger after it is stored, and no apply is a conflict.
func TestAuthorChangesConvertedTriggers(t *testing.T) {
	t.Parallel()
	team := namespace(t, "converted")
	manifest := func(host string) string { return strings.ReplaceAll(shop(simple), "shop.test", host) }
	for _, host := range []string{"a.test", "a.test", "b.test", "a.test"} {
		if err := applyUnforced(t, team, "helm", manifest(host)); err != nil {
			t.Fatalf("host %s: %v", host, err)
		}
		awaitConverted(t, team, host)
	}
	awaitObject(t, team, "shop", "made", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return len(object.Spec.Hosts) == 1 && object.Spec.Hosts[0] == "a.test"
	})

	t.Log("a second tool, kubectl, applies the same object")
	if err := applyUnforced(t, team, "kubectl", manifest("c.test")); err != nil {
		t.Errorf("of kubectl: %v", err)
	}
	awaitConverted(t, team, "c.test")
	if err := applyUnforced(t, team, "helm", manifest("d.test")); err != nil {
		t.Errorf("of Helm after kubectl: %v", err)
	}
	awaitConverted(t, team, "d.test")

	t.Log("errors of the trigger are reported, and are no conflict either")
	if err := applyUnforced(t, team, "helm", manifest(`"e.test,?"`)); err != nil {
		t.Errorf("an invalid host: %v", err)
	}
	await.True(t, "the problem is reported", func() bool { return problemsOf(t, team, "shop") != "" })
	awaitConverted(t, team, "e.test,?")
	if err := applyUnforced(t, team, "helm", manifest("e.test")); err != nil {
		t.Errorf("the corrected host: %v", err)
	}
	awaitConverted(t, team, "e.test")
}

// TestReleaseTriggersOfEarlierVersions has a ScaledObject whose triggers the agent manages, as an agent left it that
// was killed after a conversion, and as earlier versions did. The next reconciliation releases them.
func TestReleaseTriggersOfEarlierVersions(t *testing.T) {
	t.Parallel()
	team := namespace(t, "earlier")
	if err := applyUnforced(t, team, "helm", shop(simple)); err != nil {
		t.Fatal(err)
	}
	awaitConverted(t, team, "shop.test")
	err := shared.admin.Patch(types.JSONPatchType).AbsPath(scaledObject(team, "shop")).
		Param("fieldManager", httpv1alpha1.ManagedByAgent).
		Body([]byte(`[{"op": "add", "path": "/spec/triggers/0/metadata/targetValue", "value": "7"}]`)).
		Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
	awaitObject(t, team, "shop", "reconciled", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return object.Spec.ScalingMetric.RequestRate.TargetValue == 7
	})
	awaitConverted(t, team, "shop.test")
	if err := applyUnforced(t, team, "helm", shop(simple)); apierrors.IsConflict(err) {
		t.Errorf("the author applies it again: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}
