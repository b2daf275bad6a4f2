package kit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
)

// acceptedResource is a resource that the proxy accepted.
type acceptedResource struct {
	version string
	body    []byte
	message proto.Message
}

// xdsProxy is the state machine of an XDSClient: it turns responses into requests, without a stream.
type xdsProxy struct {
	mode     XDSMode
	accepted map[string]map[string]acceptedResource // by type URL and name
	// subscribed are the names of the subscribed endpoints, by type URL.
	subscribed map[string]map[string]struct{}
	// warming are clusters that wait for endpoints; active are those that were warm once and still serve.
	warming, active map[string]struct{}
	// initialised is true once the first clusters were warm. From then on the ACK of clusters is delayed until they are
	// warm.
	initialised  bool
	hasListeners bool // has subscribed to the listeners
	hasScopes    bool // has subscribed to the scopes
	delayedACKs  []xdsRequest
	nonces       map[string]string
	versions     map[string]string
	broken       []string
	deliveries   []XDSDelivery
}

func newXDSProxy(mode XDSMode) *xdsProxy {
	return &xdsProxy{
		mode:       mode,
		accepted:   map[string]map[string]acceptedResource{},
		subscribed: map[string]map[string]struct{}{resourcev3.EndpointType: {}},
		warming:    map[string]struct{}{},
		active:     map[string]struct{}{},
		nonces:     map[string]string{},
		versions:   map[string]string{},
	}
}

// accepted copies the accepted resources of a type.
func accepted[T proto.Message](p *xdsProxy, typeURL string) map[string]T {
	out := make(map[string]T, len(p.accepted[typeURL]))
	for name, res := range p.accepted[typeURL] {
		if m, ok := res.message.(T); ok {
			out[name] = m
		}
	}
	return out
}

// initialRequests returns the first requests of a stream. On a later stream they contain the versions of the accepted
// resources.
func (p *xdsProxy) initialRequests() []xdsRequest {
	p.delayedACKs = nil
	clear(p.nonces)
	requests := []xdsRequest{p.firstRequest(resourcev3.ClusterType)}
	if len(p.subscribed[resourcev3.EndpointType]) > 0 {
		requests = append(requests, p.firstRequest(resourcev3.EndpointType))
	}
	if p.hasListeners {
		requests = append(requests, p.firstRequest(resourcev3.ListenerType))
	}
	if p.hasScopes {
		requests = append(requests, p.firstRequest(resourcev3.ScopedRouteType))
	}
	return requests
}

// firstRequest returns the first request of a type on a stream.
func (p *xdsProxy) firstRequest(typeURL string) xdsRequest {
	names := slices.Sorted(maps.Keys(p.subscribed[typeURL]))
	if p.mode == XDSStateOfTheWorld {
		return xdsRequest{typeURL: typeURL, names: names, version: p.versions[typeURL]}
	}
	initial := map[string]string{}
	for name, res := range p.accepted[typeURL] {
		initial[name] = res.version
	}
	return xdsRequest{typeURL: typeURL, subscribe: names, initial: initial}
}

// handleResponse accepts or rejects a response and returns the requests that follow.
func (p *xdsProxy) handleResponse(r xdsResponse, reject func(typeURL, name string) error) ([]xdsRequest, error) {
	delivery := XDSDelivery{TypeURL: r.typeURL, Removed: r.removed}
	var rejections []error
	changed := map[string]struct{}{}
	listed := map[string]struct{}{}
	for _, res := range r.resources {
		name, resource, err := readResource(r.typeURL, res)
		if err != nil {
			return nil, err
		}
		delivery.Names = append(delivery.Names, name)
		listed[name] = struct{}{}
		old, exists := p.accepted[r.typeURL][name]
		isNew := !exists || !bytes.Equal(old.body, resource.body)
		if reject != nil && isNew {
			if err := reject(r.typeURL, name); err != nil {
				rejections = append(rejections, err)
				continue
			}
		}
		if isNew {
			changed[name] = struct{}{}
		}
		p.store(r.typeURL, name, resource)
	}
	rejection := errors.Join(rejections...)
	delivery.Rejected = rejection != nil
	p.deliveries = append(p.deliveries, delivery)
	p.nonces[r.typeURL] = r.nonce
	if rejection == nil {
		p.versions[r.typeURL] = r.version
	}
	followers := p.updateSubscriptions(r, changed, listed)
	p.recordBrokenRoutes()
	return p.withACK(r, rejection, followers), nil
}

// store stores an accepted resource.
func (p *xdsProxy) store(typeURL, name string, res acceptedResource) {
	if p.accepted[typeURL] == nil {
		p.accepted[typeURL] = map[string]acceptedResource{}
	}
	p.accepted[typeURL][name] = res
}

// readResource unpacks a resource and returns its name.
func readResource(typeURL string, res xdsResource) (string, acceptedResource, error) {
	var message proto.Message
	switch typeURL {
	case resourcev3.ClusterType:
		message = &clusterv3.Cluster{}
	case resourcev3.EndpointType:
		message = &endpointv3.ClusterLoadAssignment{}
	case resourcev3.ListenerType:
		message = &listenerv3.Listener{}
	case resourcev3.ScopedRouteType:
		message = &routev3.ScopedRouteConfiguration{}
	default:
		return "", acceptedResource{}, fmt.Errorf("response of type %q without a subscription", typeURL)
	}
	if err := res.body.UnmarshalTo(message); err != nil {
		return "", acceptedResource{}, fmt.Errorf("unpack %s: %w", typeURL, err)
	}
	name := resourceName(message)
	if res.name != "" && res.name != name {
		return "", acceptedResource{}, fmt.Errorf("resource %q has the name %q in its body", res.name, name)
	}
	return name, acceptedResource{version: res.version, body: res.body.GetValue(), message: message}, nil
}

// resourceName returns the name in a resource's body.
func resourceName(message proto.Message) string {
	switch m := message.(type) {
	case *endpointv3.ClusterLoadAssignment:
		return m.GetClusterName()
	case interface{ GetName() string }:
		return m.GetName()
	default:
		return ""
	}
}

// updateSubscriptions applies the resources of a response, and returns the requests for further types and names.
func (p *xdsProxy) updateSubscriptions(r xdsResponse, changed, listed map[string]struct{}) []xdsRequest {
	switch r.typeURL {
	case resourcev3.ClusterType:
		p.removeMissing(r, listed, func(name string) {
			delete(p.warming, name)
			delete(p.active, name)
		})
		resend := p.startWarming(changed)
		return p.resubscribe(resourcev3.EndpointType, p.endpointNames(), resend)
	case resourcev3.ListenerType:
		p.removeMissing(r, listed, func(string) {})
		if p.hasScopes || !p.hasScopedRoutes() {
			return nil
		}
		p.hasScopes = true
		return []xdsRequest{p.firstRequest(resourcev3.ScopedRouteType)}
	case resourcev3.ScopedRouteType:
		p.removeMissing(r, listed, func(string) {})
	case resourcev3.EndpointType:
		p.finishWarming(listed)
		p.finishWarming(setOf(r.removed))
	default:
	}
	return nil
}

// removeMissing removes the clusters, listeners or scopes that a response removes.
func (p *xdsProxy) removeMissing(r xdsResponse, listed map[string]struct{}, onRemove func(name string)) {
	removed := r.removed
	if p.mode == XDSStateOfTheWorld {
		removed = nil
		for name := range p.accepted[r.typeURL] {
			if _, isListed := listed[name]; !isListed {
				removed = append(removed, name)
			}
		}
	}
	for _, name := range removed {
		delete(p.accepted[r.typeURL], name)
		onRemove(name)
	}
}

// startWarming begins to warm the new and changed clusters. It returns true if one of them needs endpoints that were
// subscribed before.
func (p *xdsProxy) startWarming(changed map[string]struct{}) bool {
	resend := false
	for name := range changed {
		endpoints := p.endpointsOf(name)
		if endpoints == "" {
			p.active[name] = struct{}{}
			continue
		}
		p.warming[name] = struct{}{}
		if _, isSubscribed := p.subscribed[resourcev3.EndpointType][endpoints]; isSubscribed {
			resend = true
		}
	}
	return resend
}

// finishWarming ends the warming of the clusters that waited for these endpoints.
func (p *xdsProxy) finishWarming(endpoints map[string]struct{}) {
	for name := range p.warming {
		if _, hasEndpoints := endpoints[p.endpointsOf(name)]; hasEndpoints {
			delete(p.warming, name)
			p.active[name] = struct{}{}
		}
	}
}

// endpointsOf returns the name of a cluster's endpoints, "" without EDS.
func (p *xdsProxy) endpointsOf(name string) string {
	cluster, ok := p.accepted[resourcev3.ClusterType][name].message.(*clusterv3.Cluster)
	if !ok || cluster.GetType() != clusterv3.Cluster_EDS {
		return ""
	}
	if service := cluster.GetEdsClusterConfig().GetServiceName(); service != "" {
		return service
	}
	return name
}

// endpointNames returns the names of all endpoints that the clusters need.
func (p *xdsProxy) endpointNames() map[string]struct{} {
	names := map[string]struct{}{}
	for name := range p.accepted[resourcev3.ClusterType] {
		if endpoints := p.endpointsOf(name); endpoints != "" {
			names[endpoints] = struct{}{}
		}
	}
	return names
}

// hasScopedRoutes reports whether a listener has scoped routes.
func (p *xdsProxy) hasScopedRoutes() bool {
	for _, listener := range accepted[*listenerv3.Listener](p, resourcev3.ListenerType) {
		for _, chain := range listener.GetFilterChains() {
			for _, filter := range chain.GetFilters() {
				if resourcev3.GetHTTPConnectionManager(filter).GetScopedRoutes() != nil {
					return true
				}
			}
		}
	}
	return false
}

// resubscribe changes the subscription of a type to the given names. resend also sends an unchanged subscription, which
// happens in state of the world only.
func (p *xdsProxy) resubscribe(typeURL string, names map[string]struct{}, resend bool) []xdsRequest {
	before := p.subscribed[typeURL]
	p.subscribed[typeURL] = names
	r := xdsRequest{typeURL: typeURL}
	for name := range names {
		if _, isSubscribed := before[name]; !isSubscribed {
			r.subscribe = append(r.subscribe, name)
		}
	}
	for name := range before {
		if _, isNeeded := names[name]; !isNeeded {
			r.unsubscribe = append(r.unsubscribe, name)
			delete(p.accepted[typeURL], name)
		}
	}
	changed := len(r.subscribe)+len(r.unsubscribe) > 0
	if p.mode == XDSDelta {
		if !changed {
			return nil
		}
		slices.Sort(r.subscribe)
		slices.Sort(r.unsubscribe)
		return []xdsRequest{r}
	}
	if !changed && !resend {
		return nil
	}
	return []xdsRequest{p.sotwRequest(typeURL)}
}

// sotwRequest returns a state-of-the-world request with the present subscription.
func (p *xdsProxy) sotwRequest(typeURL string) xdsRequest {
	return xdsRequest{
		typeURL: typeURL, nonce: p.nonces[typeURL], version: p.versions[typeURL],
		names: slices.Sorted(maps.Keys(p.subscribed[typeURL])),
	}
}

// withACK puts the ACK or NACK of a response before the requests that follow from it, and appends the ACKs that the end
// of warming releases.
func (p *xdsProxy) withACK(r xdsResponse, rejection error, followers []xdsRequest) []xdsRequest {
	ack := xdsRequest{typeURL: r.typeURL, nonce: r.nonce, rejection: rejection}
	if p.mode == XDSStateOfTheWorld {
		ack = p.sotwRequest(r.typeURL)
		ack.rejection = rejection
	}
	requests := followers
	if r.typeURL == resourcev3.ClusterType && p.initialised && len(p.warming) > 0 {
		p.delayedACKs = append(p.delayedACKs, ack)
	} else {
		requests = append([]xdsRequest{ack}, followers...)
	}
	if len(p.warming) > 0 {
		return requests
	}
	requests = append(requests, p.delayedACKs...)
	p.delayedACKs = nil
	p.initialised = true
	if !p.hasListeners {
		p.hasListeners = true
		requests = append(requests, p.firstRequest(resourcev3.ListenerType))
	}
	return requests
}

// recordBrokenRoutes records routes to clusters that Envoy could not use at this moment.
func (p *xdsProxy) recordBrokenRoutes() {
	for name, scope := range accepted[*routev3.ScopedRouteConfiguration](p, resourcev3.ScopedRouteType) {
		for _, cluster := range routedClusters(scope.GetRouteConfiguration()) {
			if _, isActive := p.active[cluster]; !isActive {
				p.broken = append(p.broken,
					fmt.Sprintf("after delivery %d scope %s named cluster %s", len(p.deliveries), name, cluster))
			}
		}
	}
}

// routedClusters returns the clusters that routes send requests to.
func routedClusters(routes *routev3.RouteConfiguration) []string {
	var names []string
	for _, host := range routes.GetVirtualHosts() {
		for _, route := range host.GetRoutes() {
			action := route.GetRoute()
			names = append(names, action.GetCluster())
			for _, weighted := range action.GetWeightedClusters().GetClusters() {
				names = append(names, weighted.GetName())
			}
			for _, mirror := range action.GetRequestMirrorPolicies() {
				names = append(names, mirror.GetCluster())
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// setOf returns the set of a list's names.
func setOf(names []string) map[string]struct{} {
	set := make(map[string]struct{}, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}
