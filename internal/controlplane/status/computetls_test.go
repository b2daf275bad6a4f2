package status_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestComputeTLS expects the condition TLSReady, on which nothing else depends.
func TestComputeTLS(t *testing.T) {
	ends := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	wrong := []model.Problem{
		problem(httpv1alpha1.ReasonInvalidSecret, "one"),
		problem(httpv1alpha1.ReasonHostNotCovered, "two"),
	}
	for name, c := range map[string]struct {
		seen *certificates.State
		want *metav1.Condition // nil for none
	}{
		"nothing got asked for": {},
		"fine": {
			&certificates.State{Secret: "tls", Expires: ends},
			&metav1.Condition{
				Status: metav1.ConditionTrue, Reason: httpv1alpha1.ReasonTLSReady,
				Message: "The proxies serve TLS with the certificate in Secret \"tls\", valid until " +
					"2027-01-02T03:04:05Z.",
			},
		},
		"not read yet": {
			&certificates.State{Secret: "tls", IsPending: true},
			&metav1.Condition{
				Status: metav1.ConditionUnknown, Reason: httpv1alpha1.ReasonSecretPending,
				Message: `Secret "tls" has not been read yet.`,
			},
		},
		"wrong": {
			&certificates.State{Secret: "tls", Problems: wrong, Expires: ends},
			&metav1.Condition{
				Status: metav1.ConditionFalse, Reason: httpv1alpha1.ReasonInvalidSecret,
				Message: "one; two",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := shop()
			object.Status.Conditions = []metav1.Condition{{
				Type: httpv1alpha1.ConditionTLSReady, Status: metav1.ConditionFalse,
				LastTransitionTime: metav1.NewTime(noon()), Reason: "Former",
			}}
			computed := status.Compute(object, ingest.Outcome{Served: true, TLS: c.seen}, status.Acks{}, "pod-1",
				later())
			got := meta.FindStatusCondition(computed.Conditions, httpv1alpha1.ConditionTLSReady)
			if c.want == nil || got == nil {
				if got != nil || c.want != nil {
					t.Errorf("the condition is %+v, want %+v", got, c.want)
				}
			} else if got.Status != c.want.Status || got.Reason != c.want.Reason || got.Message != c.want.Message ||
				got.ObservedGeneration != object.Generation {
				t.Errorf("the condition is %+v, want %+v", got, c.want)
			}
			if accepted := meta.FindStatusCondition(computed.Conditions,
				httpv1alpha1.ConditionAccepted); accepted.Status != metav1.ConditionTrue {
				t.Errorf("condition Accepted: %+v", accepted)
			}
		})
	}
}
