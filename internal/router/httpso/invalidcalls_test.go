package httpso_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

func TestErrorsNameObjectFieldAndFix(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: httpv1alpha1.Group, Resource: httpv1alpha1.Resource}
	tests := map[string]struct {
		config  string
		rollout func(*v1alpha1.Rollout)
		fault   http.HandlerFunc
		weight  int32
		others  []v1alpha1.WeightDestination
		want    []string
	}{
		"no configuration": {
			config: "", weight: 20,
			want: []string{
				`rollout "shop/web"`, `spec.strategy.canary.trafficRouting.plugins["kedify/http"] is missing`,
				"httpScaledObjectName",
			},
		},
		"a string in its place": {
			config: `"web"`, weight: 20,
			want: []string{`plugins["kedify/http"] is "web", not an object`, "write {httpScaledObjectName"},
		},
		"null in its place": {config: `null`, weight: 20, want: []string{"is null, not an object"}},
		"an unknown key": {
			config: `{"httpScaledObjectName":"web","namespace":"b"}`, weight: 20,
			want: []string{`unknown key "namespace"`, "remove it"},
		},
		"no name": {config: `{}`, weight: 20, want: []string{`plugins["kedify/http"].httpScaledObjectName is missing`}},
		"a number for a name": {
			config: `{"httpScaledObjectName":7}`, weight: 20,
			want: []string{"httpScaledObjectName is missing or not a name"},
		},
		"a path for a name": {
			config: `{"httpScaledObjectName":"../web"}`, weight: 20,
			want: []string{`httpScaledObjectName is "../web"`},
		},
		"no stable Service": {
			rollout: func(r *v1alpha1.Rollout) { r.Spec.Strategy.Canary.StableService = "" }, weight: 20,
			want: []string{"spec.strategy.canary.stableService is empty"},
		},
		"no canary Service": {
			rollout: func(r *v1alpha1.Rollout) { r.Spec.Strategy.Canary.CanaryService = "" }, weight: 20,
			want: []string{"spec.strategy.canary.canaryService is empty"},
		},
		"one Service for both": {
			rollout: func(r *v1alpha1.Rollout) { r.Spec.Strategy.Canary.CanaryService = "web-stable" }, weight: 20,
			want: []string{`duplicate service "web-stable"`, "spec.strategy.canary"},
		},
		"not a canary": {
			rollout: func(r *v1alpha1.Rollout) { r.Spec.Strategy.Canary = nil }, weight: 20,
			want: []string{"spec.strategy.canary is missing"},
		},
		"a negative weight": {weight: -1, want: []string{"weight -1 is negative", "spec.strategy.canary.steps"}},
		"an experiment of too much": {
			weight: 60, others: []v1alpha1.WeightDestination{{ServiceName: "try", Weight: 50}},
			want: []string{"add up to 110, above 100"},
		},
		"an experiment below zero": {
			weight: 60, others: []v1alpha1.WeightDestination{{ServiceName: "try", Weight: -5}},
			want: []string{`weight -5 of Service "try" is negative`},
		},
		"no such object": {
			config: `{"httpScaledObjectName":"wbe"}`, weight: 20,
			want: []string{
				`HTTPScaledObject "shop/wbe" of rollout "shop/web"`, "not found", "create it",
				"httpScaledObjectName",
			},
		},
		"forbidden": {
			fault: routertest.RespondError(apierrors.NewForbidden(resource, "web", errors.New("no rule allows it"))), weight: 20,
			want: []string{`"shop/web"`, "forbidden", "ClusterRoleBinding argo-rollouts-kedify-http"},
		},
		"credentials that are wrong": {
			fault: routertest.RespondError(apierrors.NewUnauthorized("token expired")), weight: 20,
			want: []string{"token expired", "ServiceAccount token or kubeconfig"},
		},
		"an invalid patch": {
			fault: routertest.RespondError(apierrors.NewBadRequest("odd")), weight: 20,
			want: []string{`HTTPScaledObject "shop/web" of rollout "shop/web"`, "odd"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
			if test.fault != nil {
				api.Fail(test.fault)
			}
			given := test.config
			if given == "" && name != "no configuration" {
				given = config
			}
			rollout := routertest.Rollout(httpso.Type, given)
			if test.rollout != nil {
				test.rollout(rollout)
			}
			err := newRouter(api).SetWeight(t.Context(), rollout, test.weight, test.others)
			if err == nil {
				t.Fatal("SetWeight succeeded")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			if writes := len(api.Requests(http.MethodPatch)); writes != 0 {
				t.Errorf("%d writes, want none", writes)
			}
		})
	}
}
