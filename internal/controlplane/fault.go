package controlplane

import (
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// publishWrongWeights implements fault.BriefWrongWeight: it publishes an update with 10 points too much for the canary,
// and returns the correction 300 ms later.
func publishWrongWeights(server *xds.Server, fleet model.Fleet, update translate.Update) translate.Update {
	correct := update.Changed[resourcev3.ScopedRouteType]
	if len(correct) == 0 {
		return update
	}
	wrong := map[string]proto.Message{}
	for name, message := range correct {
		scope := proto.CloneOf(message.(*routev3.ScopedRouteConfiguration))
		for _, host := range scope.GetRouteConfiguration().GetVirtualHosts() {
			for _, route := range host.GetRoutes() {
				sides := route.GetRoute().GetWeightedClusters().GetClusters()
				if len(sides) == 2 && sides[0].GetWeight().GetValue() > 10 {
					sides[0].Weight.Value -= 10
					sides[1].Weight.Value += 10
				}
			}
		}
		wrong[name] = scope
	}
	update.Changed[resourcev3.ScopedRouteType] = wrong
	delta := xds.Delta{Fleet: string(fleet), Changed: update.Changed, Removed: update.Removed}
	if err := server.ApplyDelta(delta); err != nil {
		return update
	}
	time.Sleep(300 * time.Millisecond)
	return translate.Update{Changed: translate.Resources{resourcev3.ScopedRouteType: correct}}
}
