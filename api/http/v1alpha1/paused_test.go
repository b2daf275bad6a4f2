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
