package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// TestDecodeListWithInvalidObject decodes lists with an object whose values pass the CRD's schema only.
func TestDecodeListWithInvalidObject(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		object     string
		unreadable string
		hosts      []string
		service    string
	}{
		"a duration that is none": {
			`{"spec": {"hosts": ["a.test"], "scaleTargetRef": {"service": "a", "port": 80}, "timeouts": {"responseHeader": "soon"}}}`,
			`timeouts: time: invalid duration "soon"`,
			[]string{"a.test"},
			"a",
		},
		"a duration of eleven thousand years": {
			`{"spec": {"scaleTargetRef": {"service": "a", "port": 80}, "timeouts": {"conditionWait": "99999999h"}}}`,
			`timeouts: time: invalid duration "99999999h"`, nil, "a",
		},
		"a duration without a unit": {
			`{"spec": {"scaleTargetRef": {"service": "a", "port": 80}, "timeouts": {"conditionWait": "1m", "responseHeader": "30"}}}`,
			`timeouts: time: missing unit in duration "30"`, nil, "a",
		},
		"durations of zero, and a negative one": {
			`{"spec": {"scaleTargetRef": {"service": "a", "port": 80}, "timeouts": {"responseHeader": "0", "conditionWait": "-5s"},
				"scalingMetric": {"requestRate": {"window": "0s", "granularity": "0"}}}}`,
			"", nil, "a",
		},
		"an empty duration": {
			`{"spec": {"scaleTargetRef": {"service": "a", "port": 80}, "scalingMetric": {"requestRate": {"window": ""}}}}`,
			`scalingMetric: time: invalid duration ""`, nil, "a",
		},
		"a port of 37 bits": {
			`{"spec": {"hosts": ["a.test"], "scaleTargetRef": {"service": "a", "port": 99999999999}}}`,
			`scaleTargetRef.port: number 99999999999 does not fit int32`,
			[]string{"a.test"},
			"",
		},
		"two such fields": {
			`{"spec": {"scaledownPeriod": 99999999999, "hosts": ["a.test"], "initialCooldownPeriod": 99999999999}}`,
			`initialCooldownPeriod: number 99999999999 does not fit int32; scaledownPeriod: number 99999999999 does not fit int32`,
			[]string{"a.test"},
			"",
		},
		"a status": {
			`{"spec": {"hosts": ["a.test"]}, "status": {"dataPlane": {"proxies": {"ready": 99999999999}}}}`, "", []string{"a.test"}, "",
		},
		"nothing wrong": {`{"spec": {"hosts": ["a.test"], "scaleTargetRef": {"service": "a", "port": 80}}}`, "", []string{"a.test"}, "a"},
		"no spec":       {`{}`, "", nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var list httpv1alpha1.HTTPScaledObjectList
			if err := json.Unmarshal([]byte(`{"items": [{"spec": {"hosts": ["first.test"]}}, `+test.object+`]}`), &list); err != nil {
				t.Fatal(err)
			}
			got := list.Items[1].Spec
			if got.Unreadable != test.unreadable {
				t.Errorf("unreadable is\n%s, want\n%s", got.Unreadable, test.unreadable)
			}
			if diff := cmp.Diff(test.hosts, got.Hosts); diff != "" || got.ScaleTargetRef.Service != test.service {
				t.Errorf("service %q, want %q; hosts (-want +got):\n%s", got.ScaleTargetRef.Service, test.service, diff)
			}
			if list.Items[0].Spec.Hosts[0] != "first.test" || list.Items[1].Status.DataPlane != nil {
				t.Errorf("the list is %+v", list)
			}
		})
	}
}

func TestDecodeNonObject(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"spec": []}`, `{"status": "x"}`, `{"spec": 1`} {
		if err := json.Unmarshal([]byte(text), new(httpv1alpha1.HTTPScaledObject)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}
