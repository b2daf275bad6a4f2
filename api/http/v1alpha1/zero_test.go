package v1alpha1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIsPausedAtZero(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"nothing":               {},
		"paused":                {map[string]string{AnnotationPaused: "true"}, true},
		"not paused":            {map[string]string{AnnotationPaused: "false"}, false},
		"no boolean":            {map[string]string{AnnotationPaused: "until-monday"}, true},
		"at zero":               {map[string]string{AnnotationPausedReplicas: "0"}, true},
		"at two":                {map[string]string{AnnotationPausedReplicas: "2", AnnotationPaused: "true"}, false},
		"at no number":          {map[string]string{AnnotationPausedReplicas: "none"}, false},
		"scaling out is paused": {map[string]string{AnnotationPausedScaleOut: "true"}, true},
		"scaling in is paused":  {map[string]string{"autoscaling.keda.sh/paused-scale-in": "true"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
			if got := IsPausedAtZero(object); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

func TestZeroAnnotations(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotations map[string]string
		path        string
		hasPage     bool
	}{
		"nothing":          {},
		"a static answer":  {map[string]string{AnnotationHealthcheckPath: "/healthz", AnnotationHealthcheckResponse: "static"}, "/healthz", false},
		"the app's answer": {map[string]string{AnnotationHealthcheckPath: "/healthz", AnnotationHealthcheckResponse: "passthrough"}, "", false},
		"no word of who":   {map[string]string{AnnotationHealthcheckPath: "/healthz"}, "", false},
		"a page":           {map[string]string{AnnotationWaitingPage: "true"}, "", true},
		"no page":          {map[string]string{AnnotationWaitingPage: "false"}, "", false},
		"no boolean":       {map[string]string{AnnotationWaitingPage: "soon"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
			if path, hasPage := StaticHealthcheck(object), HasWaitingPage(object); path != test.path || hasPage != test.hasPage {
				t.Errorf("%q and %t, want %q and %t", path, hasPage, test.path, test.hasPage)
			}
		})
	}
}
