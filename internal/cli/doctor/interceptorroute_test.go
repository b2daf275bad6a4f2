package doctor_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// TestInterceptorRoute has a Rollout that references an InterceptorRoute: a valid one, an invalid one and a missing one.
func TestInterceptorRoute(t *testing.T) {
	t.Parallel()
	examine := func(change func(*facts.Facts)) []doctor.Finding {
		cluster := healthy(t)
		rollout("shop", func(r *v1alpha1.Rollout) {
			r.Spec.Strategy.Canary.TrafficRouting.Plugins[facts.HTTPRouter] = json.RawMessage(`{"interceptorRoute":"shop"}`)
		})(t, cluster)
		route := *cluster.HTTPScaledObjects[0].DeepCopy()
		route.Spec.Converted, route.OwnerReferences, route.Labels = &httpv1alpha1.ConvertedSpec{}, nil, nil
		cluster.InterceptorRoutes = []httpv1alpha1.HTTPScaledObject{route}
		change(cluster)
		return doctor.Examine(cluster)
	}
	if findings := examine(func(*facts.Facts) {}); len(findings) != 0 {
		t.Errorf("a valid one: %+v", findings)
	}
	for name, c := range map[string]struct {
		change                 func(*facts.Facts)
		code                   doctor.Code
		object, field, message string
	}{
		"invalid": {
			func(f *facts.Facts) {
				conditions := f.InterceptorRoutes[0].Status.Conditions
				conditions[0].Status, conditions[0].Reason, conditions[0].Message = metav1.ConditionFalse, "NoRules", "spec.rules: none"
			},
			doctor.HTTPScaledObjectNotAccepted, "InterceptorRoute shop/shop", "status.conditions[Accepted]", "NoRules: spec.rules: none",
		},
		"missing": {
			func(f *facts.Facts) { f.InterceptorRoutes = nil },
			doctor.HTTPScaledObjectNotFound, "Rollout shop/shop", `["kedify/http"].interceptorRoute`,
			`InterceptorRoute "shop" does not exist in namespace "shop"`,
		},
	} {
		findings := examine(c.change)
		if len(findings) != 1 || findings[0].Code != c.code || findings[0].Object != c.object ||
			!strings.HasSuffix(findings[0].Field, c.field) || findings[0].Message != c.message {
			t.Errorf("%s: got %+v", name, findings)
		}
	}
}
