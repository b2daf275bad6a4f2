package desired_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// TestInvalidValues edits the trigger of an existing object, each time together with its target value. The object keeps
// its own value of an invalid key, and gets all others.
func TestInvalidValues(t *testing.T) {
	t.Parallel()
	type spec = httpv1alpha1.HTTPScaledObjectSpec
	same := func(*spec) {}
	for name, c := range map[string]struct {
		metadata map[string]string
		scaled   func(*apis.ScaledObject)
		want     func(*spec)
		reason   string // of TriggerAccepted False; empty for True
	}{
		"service":             {map[string]string{"service": "Shop_1"}, nil, same, "InvalidTrigger"},
		"service of another":  {map[string]string{"service": "shop.other"}, nil, same, "InvalidTrigger"},
		"no service":          {map[string]string{"service": ""}, nil, same, "ServiceNotSet"},
		"port name":           {map[string]string{"portName": "HTTP"}, nil, same, "InvalidTrigger"},
		"port":                {map[string]string{"portName": "", "port": "0"}, nil, same, "InvalidTrigger"},
		"no port":             {map[string]string{"portName": ""}, nil, same, "InvalidTrigger"},
		"both, one invalid":   {map[string]string{"portName": "HTTP", "port": "8080"}, nil, same, "InvalidTrigger"},
		"both, the same":      {map[string]string{"portName": "http", "port": "x"}, nil, same, ""},
		"both":                {map[string]string{"port": "80"}, nil, same, "InvalidTrigger"},
		"a name with a digit": {map[string]string{"portName": "", "port": "8080a"}, nil, same, "InvalidTrigger"},
		"another name":        {map[string]string{"portName": "", "port": "web"}, nil, same, "InvalidTrigger"},
		"a name in port":      {map[string]string{"portName": "", "port": "http"}, nil, same, ""},
		"a number as a name":  {map[string]string{"portName": "8080"}, nil, same, "InvalidTrigger"},
		"headers":             {map[string]string{"headers": "X-Team: b"}, nil, same, "InvalidTrigger"},
		"name of a header":    {map[string]string{"headers": "[{name: X Team, value: b}]"}, nil, same, "InvalidTrigger"},
		"field of a header":   {map[string]string{"headers": "[{name: X-Team, value: a, regex: b}]"}, nil, same, ""},
		"field for the value": {map[string]string{"headers": "[{name: X-Team, val: b}]"}, nil, same, "InvalidTrigger"},
		"headers, no list":    {map[string]string{"headers": "# [{name: X-Team}]"}, nil, same, "InvalidTrigger"},
		"misspelled headers":  {map[string]string{"headers": "", "header": "[{name: X-Team}]"}, nil, same, ""},
		"missing hosts":       {map[string]string{"hosts": " "}, nil, same, ""},
		"hosts":               {map[string]string{"hosts": "a b,c d"}, nil, same, "InvalidTrigger"},
		"path prefixes":       {map[string]string{"pathPrefixes": "a,b"}, nil, same, "InvalidTrigger"},
		"misspelled hosts":    {map[string]string{"hosts": "", "host": "c.test"}, nil, same, ""},
		"misspelled prefixes": {map[string]string{"pathPrefixes": "", "pathPrefix": "/c"}, nil, same, ""},
		"several": {
			map[string]string{"service": "a/b", "portName": "-", "headers": "- a", "hosts": "?", "pathPrefixes": "?"},
			nil, same, "InvalidTrigger",
		},
		"another valid one": {map[string]string{"service": "new", "portName": "-"}, nil, func(s *spec) {
			s.ScaleTargetRef.Service = "new"
		}, "InvalidTrigger"},
		"replicas": {nil, func(scaled *apis.ScaledObject) {
			scaled.Spec.MaxReplicaCount = new(int64(1) << 40)
		}, same, "InvalidTrigger"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scaled := read[apis.ScaledObject](t, full)
			metadata := scaled.Spec.Triggers[0].Metadata
			metadata["targetValue"] = "7"
			maps.Copy(metadata, c.metadata)
			if c.scaled != nil {
				c.scaled(scaled)
			}
			object := read[httpv1alpha1.HTTPScaledObject](t, made)
			want := object.DeepCopy().Spec
			want.ScalingMetric.RequestRate.TargetValue = 7
			c.want(&want)
			changes := compareWith(scaled, object)
			if len(changes.Update) != 1 || len(changes.Problems) == 0 {
				t.Fatalf("changes: %+v", changesOf(changes))
			}
			if diff := cmp.Diff(want, changes.Update[0].Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			status := metav1.ConditionTrue
			if c.reason != "" {
				status = metav1.ConditionFalse
			}
			if got := changes.Conditions["shop"][0]; got.Status != status || c.reason != "" && got.Reason != c.reason {
				t.Errorf("condition %+v, want %s %s", got, status, c.reason)
			}
			object.Spec, object.Annotations = changes.Update[0].Spec, changes.Update[0].Annotations
			if again := compareWith(scaled, object); len(again.Update) > 0 {
				t.Errorf("it is written again: %+v", again.Update[0].Spec)
			}
		})
	}
}

// TestInvalidTriggerOfAnotherTarget: the Service and the port of an object belong to its workload, so the object stays
// unchanged while the trigger of another workload is invalid.
func TestInvalidTriggerOfAnotherTarget(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*apis.ScaledObject){
		"name": func(scaled *apis.ScaledObject) { scaled.Spec.ScaleTargetRef.Name = "new" },
		"kind": func(scaled *apis.ScaledObject) { scaled.Spec.ScaleTargetRef.Kind = "StatefulSet" },
	} {
		scaled := read[apis.ScaledObject](t, full)
		change(scaled)
		for key, value := range map[string]string{"service": "New_1", "port": "80"} {
			edited := scaled.DeepCopy()
			edited.Spec.Triggers[0].Metadata[key] = value
			changes := compareWith(edited, read[httpv1alpha1.HTTPScaledObject](t, made))
			if len(changes.Update) > 0 || changes.Conditions["shop"][0].Status != metav1.ConditionFalse {
				t.Errorf("%s, %s %s: %+v", name, key, value, changesOf(changes))
			}
		}
	}
}

// compareWith compares a ScaledObject with an existing object.
func compareWith(scaled *apis.ScaledObject, object *httpv1alpha1.HTTPScaledObject) desired.Changes {
	return desired.Compare(scaled, desired.Desired(scaled, nil, address), []*httpv1alpha1.HTTPScaledObject{object})
}
