package split_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

// TestSplitOfAnInterceptorRoute has the report in the annotation.
func TestSplitOfAnInterceptorRoute(t *testing.T) {
	t.Parallel()
	report, err := json.Marshal(map[string]any{"uid": "", "dataPlane": applied(canaryWeights, 2, 1, false)})
	if err != nil {
		t.Fatal(err)
	}
	route := &httpv1beta1.InterceptorRoute{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Annotations: map[string]string{
			httpv1alpha1.AnnotationWeightedBackends: canaryWeights, httpv1alpha1.AnnotationStatus: string(report),
		},
	}, Spec: httpv1beta1.InterceptorRouteSpec{Target: httpv1beta1.TargetRef{Service: "stable"}}}
	using := rollout(facts.HTTPRouter)
	using.Object, using.InterceptorRoute = "", "web"
	cluster := &facts.Facts{InterceptorRoutes: []httpv1alpha1.HTTPScaledObject{facts.NewInterceptorRoute(route)}}
	want := []split.Object{{
		Name: "InterceptorRoute shop/web", Written: []int64{80, 20}, AsDesired: true, Applied: split.No,
		Reason:  "acknowledged by 1 of 2 Ready proxies",
		Proxies: &split.Proxies{Ready: 2, Acked: 1},
	}}
	if diff := cmp.Diff(want, split.Of(cluster, using).Objects); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	missing := []split.Object{{Name: "InterceptorRoute shop/web", Problem: "does not exist", Applied: split.Unknown}}
	if diff := cmp.Diff(missing, split.Of(&facts.Facts{}, using).Objects); diff != "" {
		t.Errorf("a missing one (-want +got):\n%s", diff)
	}
}
