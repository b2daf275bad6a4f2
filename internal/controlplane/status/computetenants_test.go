package status_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestComputeContestedHosts has another namespace claim a host of the object, and stop. The object stays Accepted and
// Ready.
func TestComputeContestedHosts(t *testing.T) {
	object := shop()
	look := func(warnings ...model.Problem) *metav1.Condition {
		t.Helper()
		object.Status = status.Compute(object, ingest.Outcome{Served: true, Warnings: warnings}, status.Acks{},
			"interceptor-0", noon())
		for _, kind := range []string{httpv1alpha1.ConditionAccepted, httpv1alpha1.ConditionReady} {
			if !meta.IsStatusConditionTrue(object.Status.Conditions, kind) {
				t.Errorf("conditions %+v", object.Status.Conditions)
			}
		}
		return meta.FindStatusCondition(object.Status.Conditions, "HostsUncontested")
	}
	if got := look(); got != nil {
		t.Errorf("never claimed: %+v", got)
	}
	warning := problem(httpv1alpha1.ReasonHostClaimedByOther, "evil/x claims it")
	if got := look(warning); got == nil || got.Status != "False" || got.Reason != "HostClaimedByOther" ||
		got.Message != "evil/x claims it" {
		t.Errorf("%+v", got)
	}
	if got := look(); got == nil || got.Status != "True" || got.Reason != "HostsUncontested" {
		t.Errorf("no longer claimed: %+v", got)
	}
}
