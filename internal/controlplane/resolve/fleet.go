package resolve

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// ProxyService is the name of the Service with the proxies of its namespace as endpoints. They form the namespace's
// fleet.
const ProxyService = "kedify-proxy"

// Options are the operator's options for all HTTPScaledObjects. The zero value sets only the limit of MaxStaticBytes.
type Options struct {
	// SharedFleet is the fleet of the objects that request the shared fleet.
	SharedFleet model.Fleet
	// MaxObjects is the maximum number of served HTTPScaledObjects per namespace, and MaxHosts the maximum number of
	// their hosts; 0 means no limit.
	MaxObjects, MaxHosts int
	// MaxStaticBytes is the maximum number of bytes of the bodies of static responses per namespace, each as often as
	// a proxy has it; 0 means 8 MiB.
	MaxStaticBytes int
	// NeedTokens is true if fleets without a setting of their own are strict, see model.Proxy.
	NeedTokens bool
}

// needTokens reports whether the proxies of a fleet need tokens. service is its Service ProxyService, nil if it is
// unknown. An invalid setting means the stricter mode.
func (o Options) needTokens(service *Service) bool {
	if service == nil || service.Fleet == nil {
		return o.NeedTokens
	}
	return service.Fleet.Authentication != httpv1alpha1.ProxyAuthenticationPermissive
}

// FleetOf returns the fleet that an object requests. Without the annotation, or with an invalid one, it is the fleet
// of the object's namespace.
func (o Options) FleetOf(object *httpv1alpha1.HTTPScaledObject) model.Fleet {
	if object.Annotations[httpv1alpha1.AnnotationFleet] == httpv1alpha1.FleetShared {
		return o.SharedFleet
	}
	return model.Fleet(object.Namespace)
}

// fleetOf returns the fleet of an object with published Routes, which keeps its fleet if the annotation is invalid.
func (o Options) fleetOf(
	object *httpv1alpha1.HTTPScaledObject, published []model.Route,
) (model.Fleet, []issue) {
	text, present := object.Annotations[httpv1alpha1.AnnotationFleet]
	if !present || text == httpv1alpha1.FleetShared {
		return o.FleetOf(object), nil
	}
	issues := []issue{{httpv1alpha1.ReasonInvalidFleet, fmt.Sprintf(
		"annotation %s: %.80q is not a fleet: set it to %q for the proxies of the interceptor's namespace, or "+
			"remove it for the proxies of namespace %q",
		httpv1alpha1.AnnotationFleet, text, httpv1alpha1.FleetShared, object.Namespace)}}
	if len(published) > 0 {
		return published[0].Fleet, issues
	}
	return o.FleetOf(object), issues
}

// Proxies returns the proxies of each fleet: the endpoints of Service ProxyService of each namespace. The list is empty
// for a Service with EndpointSlices and without endpoints.
func (w Inputs) Proxies() map[model.Fleet][]model.Proxy {
	fleets, services := map[model.Fleet][]model.Proxy{}, indexServices(w.Services)
	for service, grouped := range indexSlices(w.EndpointSlices) {
		if service.Name == ProxyService {
			fleets[model.Fleet(service.Namespace)] = proxiesOf(grouped, w.Options.needTokens(services[service]))
		}
	}
	return fleets
}

// proxiesOf returns the proxies behind one Service, sorted by name. It includes proxies that are not ready, because a
// proxy connects before it becomes ready. If an endpoint is in two slices, one per IP family or while it moves
// between them, the better condition counts. Of two zones or nodes, of which one must be wrong, the last in order
// counts. The result is nil if there are no slices, and not nil otherwise. needTokens is true for a strict fleet.
func proxiesOf(endpointSlices []*EndpointSlice, needTokens bool) []model.Proxy {
	if len(endpointSlices) == 0 {
		return nil
	}
	proxies := map[string]model.Proxy{}
	for _, slice := range endpointSlices {
		for _, endpoint := range slice.Endpoints {
			address := endpoint.Address
			if !address.IsValid() || slice.Family == discoveryv1.AddressTypeFQDN {
				continue
			}
			name := cmp.Or(endpoint.Target, address.String())
			proxy := proxies[name]
			proxy.Name, proxy.NeedsToken = name, needTokens
			topology := endpoint.topology()
			proxy.Zone, proxy.Node = max(proxy.Zone, topology.Zone), max(proxy.Node, topology.Node)
			proxy.IsServing = proxy.IsServing || isServing(endpoint)
			proxy.IsReady = proxy.IsReady || isServing(endpoint) && !endpoint.IsTerminating
			if !slices.Contains(proxy.Addresses, address) {
				proxy.Addresses = append(proxy.Addresses, address)
			}
			proxies[name] = proxy
		}
	}
	sorted := make([]model.Proxy, 0, len(proxies))
	for _, name := range slices.Sorted(maps.Keys(proxies)) {
		proxy := proxies[name]
		slices.SortFunc(proxy.Addresses, netip.Addr.Compare)
		sorted = append(sorted, proxy)
	}
	return sorted
}

// isServing reports whether an endpoint serves requests. Condition serving takes precedence over ready, which is
// always true for a Service that publishes addresses that are not ready.
func isServing(endpoint Endpoint) bool {
	return endpoint.IsServing || !endpoint.HasServing && endpoint.IsReady
}
