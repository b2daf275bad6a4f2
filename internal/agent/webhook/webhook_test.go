package webhook

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"
)

// TestNamespaces sends the same ScaledObject from several namespaces. In a namespace that the agent does not
// watch, no HTTPScaledObject exists, so the scaler could not serve a converted trigger.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	const stays = `spec.triggers: not converted, because the agent's --namespaces does not include "team-c": KEDA supports ` +
		`neither type kedify-http nor type kedify-envoy-http`
	tests := map[string]struct {
		namespaces []string
		converts   bool
		warns      []string
	}{
		"all":              {nil, true, nil},
		"one of them":      {[]string{"team-a", "team-c"}, true, nil},
		"other owner only": {[]string{"team-a"}, false, []string{stays}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := yaml.YAMLToJSON([]byte(`
metadata: {name: shop, namespace: team-c}
spec: {scaleTargetRef: {name: shop}, triggers: [{type: kedify-http, metadata: {hosts: a.test, port: "80", service: shop}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			answer := webhook{"scaler.keda:9090", test.namespaces}.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Namespace: "team-c", Name: "shop", Object: runtime.RawExtension{Raw: text},
			}})
			if !answer.Allowed || (len(answer.Patch) > 0) != test.converts {
				t.Errorf("allowed %v with the patch %s", answer.Allowed, answer.Patch)
			}
			if test.converts && !json.Valid(answer.Patch) {
				t.Errorf("the patch is no JSON: %s", answer.Patch)
			}
			if diff := cmp.Diff(test.warns, answer.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
