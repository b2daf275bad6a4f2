package status_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestComputeUnrouted: an object without routes is Ready, does not report what proxies acknowledge, and still reports its
// validation errors.
func TestComputeUnrouted(t *testing.T) {
	t.Parallel()
	object := shop()
	object.Status = status.Compute(object, ingest.Outcome{}, status.Acks{}, "a", noon())
	if meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionProgrammed) == nil {
		t.Fatal("the routed object has no condition Programmed")
	}
	object.Annotations = map[string]string{httpv1alpha1.AnnotationRouting: httpv1alpha1.RoutingNone}
	got := status.Compute(object, ingest.Outcome{}, status.Acks{}, "a", later())
	ready := meta.FindStatusCondition(got.Conditions, httpv1alpha1.ConditionReady)
	if ready.Status != "True" || ready.Reason != httpv1alpha1.ReasonUnrouted ||
		!meta.IsStatusConditionTrue(got.Conditions, httpv1alpha1.ConditionAccepted) {
		t.Errorf("%+v", got.Conditions)
	}
	if programmed := meta.FindStatusCondition(got.Conditions, httpv1alpha1.ConditionProgrammed); programmed != nil {
		t.Errorf("%+v", programmed)
	}
	invalid := ingest.Outcome{Problems: []model.Problem{problem(httpv1alpha1.ReasonNamespaceLimit, "over the limit")}}
	got = status.Compute(object, invalid, status.Acks{}, "a", later())
	if meta.IsStatusConditionTrue(got.Conditions, httpv1alpha1.ConditionAccepted) {
		t.Errorf("%+v", got.Conditions)
	}
}
