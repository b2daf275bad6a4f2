package status_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit/constants"
)

// TestEveryConditionHasTheGeneration: each type of condition that the interceptor writes has observedGeneration. A new
// type has to be among the conditions of these objects.
func TestEveryConditionHasTheGeneration(t *testing.T) {
	t.Parallel()
	outcome := ingest.Outcome{
		Served: true, EnvoySettings: "unknown key",
		Warnings: []model.Problem{problem(httpv1alpha1.ReasonHostClaimedByOther, "claimed")},
		Page:     ingest.PageState{Reason: httpv1alpha1.ReasonWaitingPageNotFound},
		TLS:      &certificates.State{IsPending: true},
	}
	written := map[string]bool{}
	for _, object := range []*httpv1alpha1.HTTPScaledObject{withEveryProblem(), withUnsupportedField()} {
		for _, condition := range status.Compute(object, outcome, status.Acks{}, "interceptor-0", noon()).Conditions {
			written[condition.Type] = true
			if condition.ObservedGeneration != object.Generation {
				t.Errorf("%s: generation %d, want %d", condition.Type, condition.ObservedGeneration, object.Generation)
			}
		}
	}
	const api = "../../../api/http/"
	for _, constant := range constants.Read(t, "Condition", api+"v1alpha1", api+"v1beta1") {
		isOfAgent := constant.File == "agent.go" // internal/agent/controllers has the same test
		if written[constant.Value] == isOfAgent {
			t.Errorf("condition %s of %s: written by the interceptor: %v", constant.Value, constant.File, !isOfAgent)
		}
		delete(written, constant.Value)
	}
	if len(written) > 0 {
		t.Errorf("conditions without a constant: %v", written)
	}
}

// withEveryProblem returns an object with each problem that the spec and the annotations of one can have.
func withEveryProblem() *httpv1alpha1.HTTPScaledObject {
	object := shop()
	object.Annotations = map[string]string{
		httpv1alpha1.AnnotationExternalProxyMetricKey: "edge", httpv1alpha1.AnnotationExternalProxySources: "0.0.0.0/0",
	}
	object.Spec.ScaledownPeriod = new(int32(60))
	object.Spec.ScalingMetric = &httpv1alpha1.ScalingMetric{
		Concurrency: &httpv1alpha1.ConcurrencyMetric{}, RequestRate: &httpv1alpha1.RequestRateMetric{},
	}
	return object
}

// withUnsupportedField returns what an InterceptorRoute with a field without an effect is converted to.
func withUnsupportedField() *httpv1alpha1.HTTPScaledObject {
	object := shop()
	object.Spec.Converted = &httpv1alpha1.ConvertedSpec{Unsupported: []string{"spec.staticRoutes[0]"}}
	return object
}

// TestConditionsOfTheAgentStay: the interceptor changes no condition of the agent, and so not its generation.
func TestConditionsOfTheAgentStay(t *testing.T) {
	t.Parallel()
	object := shop()
	wired := metav1.Condition{
		Type: httpv1alpha1.ConditionAutowired, Status: metav1.ConditionTrue, Reason: httpv1alpha1.ReasonWired,
		ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(later()),
	}
	object.Status.Conditions = []metav1.Condition{wired}
	got := status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0", noon())
	if !slices.Contains(got.Conditions, wired) {
		t.Errorf("conditions %+v, want %+v among them", got.Conditions, wired)
	}
}
