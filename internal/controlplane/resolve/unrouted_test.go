package resolve_test

import (
	"testing"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestUnroutedObjects: an object with annotation routing: none has no route and no validation error, keeps no published
// route, and owns no host of the shared fleet. Another value has no effect.
func TestUnroutedObjects(t *testing.T) {
	t.Parallel()
	unrouted := func(value string) *httpv1alpha1.HTTPScaledObject {
		object := kit.NewScaledObject("apps", "metrics", "missing", 1, "shop.example.com")
		object.Annotations = map[string]string{
			httpv1alpha1.AnnotationRouting: value, httpv1alpha1.AnnotationFleet: httpv1alpha1.FleetShared,
		}
		return object
	}
	other := kit.NewScaledObject("shop", "shop", "shop", 2, "shop.example.com")
	other.CreationTimestamp.Time = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	other.Annotations = map[string]string{httpv1alpha1.AnnotationFleet: httpv1alpha1.FleetShared}
	for value, owner := range map[string]string{httpv1alpha1.RoutingNone: "shop/shop", "all": "apps/metrics"} {
		inputs := resolve.Inputs{
			ScaledObjects: []*httpv1alpha1.HTTPScaledObject{unrouted("all")}, Options: resolve.Options{SharedFleet: "keda"},
			Services: kit.ResolveServices(kit.NewService("shop", "shop")),
		}
		inputs.Published, _ = resolve.Build(inputs)
		if len(inputs.Published.Routes) != 1 {
			t.Fatalf("published routes %+v", inputs.Published.Routes)
		}
		inputs.ScaledObjects = []*httpv1alpha1.HTTPScaledObject{unrouted(value), other}
		config, problems := resolve.Build(inputs)
		if len(config.Routes) != 1 || config.Routes[0].Owner.String() != owner {
			t.Errorf("%s: routes %+v", value, config.Routes)
		}
		if value != httpv1alpha1.RoutingNone {
			continue
		}
		for _, problem := range problems {
			if problem.On == (model.Key{Namespace: "apps", Name: "metrics"}) {
				t.Errorf("%+v", problem)
			}
		}
	}
}
