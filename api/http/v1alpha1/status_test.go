package v1alpha1_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

func TestStatusOf(t *testing.T) {
	report := func(writer string) *httpv1alpha1.DataPlaneStatus {
		return &httpv1alpha1.DataPlaneStatus{ReportedBy: writer}
	}
	ready := func(reason string) metav1.Condition {
		return metav1.Condition{Type: "Ready", Reason: reason, LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}
	}
	const theirs = `{"uid": "1", "dataPlane": {"reportedBy": "annotation"}, "conditions": [
		{"type": "Ready", "reason": "Annotated", "lastTransitionTime": "1970-01-01T00:00:01Z"}]}`
	type reported = httpv1alpha1.HTTPScaledObjectStatus
	for name, test := range map[string]struct {
		annotation   string
		stored, want reported
	}{
		"no annotation":   {"", reported{DataPlane: report("status")}, reported{DataPlane: report("status")}},
		"nothing else":    {theirs, reported{}, reported{DataPlane: report("annotation"), Conditions: []metav1.Condition{ready("Annotated")}}},
		"conditions":      {theirs, reported{Conditions: []metav1.Condition{ready("Theirs")}}, reported{DataPlane: report("annotation"), Conditions: []metav1.Condition{ready("Annotated")}}},
		"left over":       {theirs, reported{DataPlane: report("status"), Conditions: []metav1.Condition{ready("Status")}}, reported{DataPlane: report("status"), Conditions: []metav1.Condition{ready("Status")}}},
		"another object":  {strings.Replace(theirs, `"1"`, `"2"`, 1), reported{}, reported{}},
		"not JSON":        {"all is well", reported{TargetService: "a:80"}, reported{TargetService: "a:80"}},
		"not a status":    {`{"uid": "1", "dataPlane": 7}`, reported{}, reported{}},
		"far too long":    {theirs + strings.Repeat(" ", 32<<10), reported{}, reported{}},
		"another service": {`{"uid": "1", "targetService": "b:80"}`, reported{TargetService: "a:80"}, reported{TargetService: "a:80"}},
	} {
		object := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Status: test.stored}
		if test.annotation != "" {
			object.Annotations = map[string]string{httpv1alpha1.AnnotationStatus: test.annotation}
		}
		before := object.DeepCopy()
		if diff := cmp.Diff(test.want, httpv1alpha1.StatusOf(object)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before, object); diff != "" {
			t.Errorf("%s: the object changed:\n%s", name, diff)
		}
	}
}
