package v1beta1_test

import (
	"encoding/json"
	"testing"

	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
)

// TestDecodeInvalidObject decodes objects whose values pass the CRD's schema only.
func TestDecodeInvalidObject(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"target": {"service": "a", "port": 80}}`:                                                     "",
		`{"target": {"service": "a", "port": 80}, "timeouts": {"readiness": "soon"}}`:                  `timeouts: time: invalid duration "soon"`,
		`{"target": {"service": "a"}, "scalingMetric": {"requestRate": {"window": ""}}}`:               `scalingMetric: time: invalid duration ""`,
		`{"target": {"service": "a"}, "scalingMetric": {"concurrency": {"targetValue": 99999999999}}}`: `scalingMetric.concurrency.targetValue: number 99999999999 does not fit int32`,
	} {
		list := httpv1beta1.InterceptorRouteList{}
		if err := json.Unmarshal([]byte(`{"items": [{"spec": `+text+`}]}`), &list); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := list.Items[0].Spec; got.Unreadable != want || got.Target.Service != "a" {
			t.Errorf("%s: got %q and Service %q, want %q", text, got.Unreadable, got.Target.Service, want)
		}
	}
	object := httpv1beta1.InterceptorRoute{}
	if err := json.Unmarshal([]byte(`{"status": {"conditions": [{"observedGeneration": "x"}]}}`), &object); err != nil {
		t.Errorf("a status with an invalid condition: %v", err)
	}
}
