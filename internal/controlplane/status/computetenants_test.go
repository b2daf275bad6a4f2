package status_test

import (
	"strings"
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

// TestComputeExternalSources has an object with an external key that no proxy, any proxy, and some proxies may report.
func TestComputeExternalSources(t *testing.T) {
	object := shop()
	object.Annotations = map[string]string{httpv1alpha1.AnnotationExternalProxyMetricKey: "outbound|80"}
	for _, step := range []struct{ sources, metric, limited string }{
		{"", "False", ""},
		{"0.0.0.0/0", "True", "False"},
		{"::/0, 10.0.0.0/8", "True", "False"},
		{"10.0.0.0/8", "True", "True"},
	} {
		object.Annotations[httpv1alpha1.AnnotationExternalProxySources] = step.sources
		object.Status = status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0", noon())
		for kind, want := range map[string]string{
			httpv1alpha1.ConditionScalingMetricAccepted:  step.metric,
			httpv1alpha1.ConditionExternalSourcesLimited: step.limited,
			httpv1alpha1.ConditionReady:                  "True",
		} {
			got := meta.FindStatusCondition(object.Status.Conditions, kind)
			if got == nil && want != "" || got != nil && string(got.Status) != want {
				t.Errorf("with sources %q: %s is %+v, want %q", step.sources, kind, got, want)
			}
			if got != nil && got.Status == metav1.ConditionFalse && !strings.Contains(got.Message, "external-proxy-sources") {
				t.Errorf("the message of %s does not name the annotation: %s", kind, got.Message)
			}
		}
	}
}
