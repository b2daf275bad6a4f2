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

// ProxyService is the name of the Service whose endpoints are the proxies of its namespace: a fleet.
const ProxyService = "kedify-proxy"

// Options are the choices of an operator that hold for every HTTPScaledObject. The zero value bounds
// nothing.
type Options struct {
	// SharedFleet is the fleet of the objects that ask for the shared one.
	SharedFleet model.Fleet
	// MaxObjects is how many HTTPScaledObjects of one namespace are served, and MaxHosts how many
	// hosts they may have in all; 0 stands for any number.
	MaxObjects, MaxHosts int
}

// FleetOf returns the fleet that an object asks for. Without the annotation it is that of its
// namespace, and with one that means nothing too.
func (o Options) FleetOf(object *httpv1alpha1.HTTPScaledObject) model.Fleet {
	if object.Annotations[httpv1alpha1.AnnotationFleet] == httpv1alpha1.FleetShared {
		return o.SharedFleet
	}
	return model.Fleet(object.Namespace)
}

// fleetOf is FleetOf for an object with Routes in force, whose fleet stays when the annotation means
// nothing.
func (o Options) fleetOf(
	object *httpv1alpha1.HTTPScaledObject, inForce []model.Route,
) (model.Fleet, []mistake) {
	text, present := object.Annotations[httpv1alpha1.AnnotationFleet]
	if !present || text == httpv1alpha1.FleetShared {
		return o.FleetOf(object), nil
	}
	wrong := []mistake{{httpv1alpha1.ReasonInvalidFleet, fmt.Sprintf(
		"annotation %s: %.80q is no fleet; set it to %q for the proxies of the interceptor's namespace, or "+
			"remove it for those of namespace %q",
		httpv1alpha1.AnnotationFleet, text, httpv1alpha1.FleetShared, object.Namespace)}}
	if len(inForce) > 0 {
		return inForce[0].Fleet, wrong
	}
	return o.FleetOf(object), wrong
}

// Proxies returns the proxies of each fleet: the endpoints of each namespace's Service ProxyService.
func Proxies(endpointSlices []*EndpointSlice) map[model.Fleet][]model.Proxy {
	fleets := map[model.Fleet][]model.Proxy{}
	for service, own := range indexSlices(endpointSlices) {
		if proxies := proxiesOf(own); service.Name == ProxyService && len(proxies) > 0 {
			fleets[model.Fleet(service.Namespace)] = proxies
		}
	}
	return fleets
}

// proxiesOf returns the proxies behind one Service, sorted by name. One that isn't ready counts: it
// connects before it becomes ready. Of an endpoint that is in two slices, one per IP family or while
// it moves between them, the better condition counts.
func proxiesOf(endpointSlices []*EndpointSlice) []model.Proxy {
	found := map[string]model.Proxy{}
	for _, slice := range endpointSlices {
		for _, endpoint := range slice.Endpoints {
			address := endpoint.Address
			if !address.IsValid() || slice.Family == discoveryv1.AddressTypeFQDN {
				continue
			}
			name := cmp.Or(endpoint.Target, address.String())
			proxy := found[name]
			proxy.Name = name
			proxy.IsServing = proxy.IsServing || serves(endpoint)
			proxy.IsReady = proxy.IsReady || serves(endpoint) && !endpoint.IsTerminating
			if !slices.Contains(proxy.Addresses, address) {
				proxy.Addresses = append(proxy.Addresses, address)
			}
			found[name] = proxy
		}
	}
	for _, proxy := range found {
		slices.SortFunc(proxy.Addresses, netip.Addr.Compare)
	}
	byName := func(a, b model.Proxy) int { return cmp.Compare(a.Name, b.Name) }
	return slices.SortedFunc(maps.Values(found), byName)
}

// serves says whether an endpoint takes requests. The condition serving is asked first: a Service that
// publishes addresses which are not ready calls all of them ready.
func serves(endpoint Endpoint) bool {
	return endpoint.IsServing || !endpoint.HasServing && endpoint.IsReady
}
