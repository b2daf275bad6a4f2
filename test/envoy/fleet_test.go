package envoy_test

import (
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestProxyReceivesOnlyItsFleet publishes to three fleets. Two claim the same host, and one also claims subdomains and
// a wildcard of it. The proxy of one fleet contains nothing of the others, and serves its own requests.
func TestProxyReceivesOnlyItsFleet(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"DELTA_GRPC", "GRPC"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			own := newInputs(t, []*backend{startBackend(t, "shop")},
				kit.NewScaledObject(namespace, "shop", "shop", 9, "shop.example.com", "*.example.com"))
			greedy := kit.NewScaledObject("greedy", "shop", "shop", 1, "shop.example.com", "a.example.com", "*")
			shared := kit.WithAnnotation(kit.NewScaledObject("third", "shop", "shop", 1, "shop.example.com"),
				httpv1alpha1.AnnotationFleet, httpv1alpha1.FleetShared)
			all := own
			all.Options = resolve.Options{SharedFleet: "keda"}
			all.ScaledObjects = append(all.ScaledObjects, greedy, shared)
			for _, other := range []string{"greedy", "third"} {
				all.Services = append(all.Services, kit.ResolveServices(kit.NewService(other, "shop"))...)
				all.EndpointSlices = append(all.EndpointSlices,
					kit.ResolveEndpointSlices(kit.NewEndpointSlice(other, "shop", "192.0.2.1"))...)
			}
			config, problems := resolve.Build(all)
			if len(problems) > 0 {
				t.Fatalf("fleets must not conflict: %+v", problems)
			}
			fleets := model.ByFleet(config)
			ownResources, err := translate.Envoy(fleets[namespace])
			if err != nil {
				t.Fatal(err)
			}
			s := serve(t, form, ownResources)
			for _, other := range []model.Fleet{"greedy", "keda"} {
				resources, err := translate.Envoy(fleets[other])
				if err != nil {
					t.Fatal(err)
				}
				if err := s.server.Publish(string(other), resources); err != nil {
					t.Fatal(err)
				}
			}
			s.await(t, ownResources)
			for _, host := range []string{"shop.example.com", "a.example.com"} {
				s.eventually(t, host, "shop")
			}
			dump, err := s.Admin(t.Context(), "/config_dump?include_eds")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(dump), namespace+"/shop/shop") {
				t.Error("the dump does not contain the proxy's own cluster")
			}
			for _, other := range []string{"greedy", "third", "192.0.2.1"} {
				if strings.Contains(string(dump), other) {
					t.Errorf("the dump names %s", other)
				}
			}
		})
	}
}
