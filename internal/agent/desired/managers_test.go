package desired_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// TestReleaseTriggers has the managers of ScaledObjects, and the patch after which the agent manages no trigger.
func TestReleaseTriggers(t *testing.T) {
	t.Parallel()
	const (
		helm     = `{manager: helm, operation: Apply, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:scaleTargetRef": {}}}}`
		keda     = `{manager: keda, operation: Update, subresource: status, fieldsType: FieldsV1, fieldsV1: {"f:status": {}}}`
		triggers = `{manager: kedify-http-agent, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:triggers": {}}}}`
		problems = `{manager: kedify-http-agent, operation: Update, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:annotations": {}}}}`
		author   = `{manager: helm, operation: Apply, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:triggers": {}}}}`
		unknown  = `{manager: kedify-http-agent, operation: Update}`
	)
	for name, c := range map[string]struct{ managers, want string }{ // want has the others, empty if nothing is written
		"converted":             {helm + ", " + triggers + ", " + keda, helm + ", " + keda},
		"no other manager":      {triggers, "{}"},
		"two entries":           {triggers + ", " + helm + ", " + triggers, helm},
		"with the annotation":   {problems + ", " + triggers, problems},
		"only the annotation":   {helm + ", " + problems, ""},
		"the author's":          {author + ", " + keda, ""},
		"without fields":        {unknown, ""},
		"no managers":           {"", ""},
		"of proxies":            {strings.ReplaceAll(triggers, "Update", "Apply"), ""},
		"the author's and ours": {author + ", " + triggers, author},
	} {
		scaled := read[apis.ScaledObject](t, "metadata: {managedFields: ["+c.managers+"]}")
		patch := desired.ReleaseTriggers(scaled.ManagedFields)
		if isOwned := len(desired.TriggerManagers(scaled.ManagedFields)) > 0; isOwned != (c.want != "") {
			t.Errorf("%s: the agent manages triggers: %t", name, isOwned)
		}
		want := "[]"
		if c.want != "" {
			want = "[{op: replace, path: /metadata/managedFields, value: [" + c.want + "]}]"
		}
		if diff := cmp.Diff(jsonOf(t, want), patchOf(t, patch)); diff != "" {
			t.Errorf("%s: patch (-want +got):\n%s", name, diff)
		}
	}
}

// jsonOf returns YAML as the values of its JSON.
func jsonOf(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// patchOf returns the values of a patch's JSON.
func patchOf(t *testing.T, patch []desired.Operation) any {
	t.Helper()
	text, err := json.Marshal(append([]desired.Operation{}, patch...))
	if err != nil {
		t.Fatal(err)
	}
	return jsonOf(t, string(text))
}
