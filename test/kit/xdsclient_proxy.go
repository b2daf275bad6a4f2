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

// heldResource is a resource that the proxy accepted.
type heldResource struct {
	version string
	body    []byte
	message proto.Message
}

// xdsProxy is what an XDSClient knows and how it reacts: responses in, requests
// out, without a stream.
type xdsProxy struct {
	mode XDSMode
	held map[string]map[string]heldResource // by type URL and name
	// subscribed are the names of the endpoints asked for, by type URL.
	subscribed map[string]map[string]struct{}
	// warming are clusters that wait for endpoints; active are those that were warm
	// once and still serve.
	warming, active map[string]struct{}
	// initialised is true once the first clusters were warm. From then on the ACK
	// of clusters waits for them.
	initialised bool
	listening   bool // the listeners were asked for
	scoped      bool // the scopes were asked for
	withheld    []xdsRequest
	nonces      map[string]string
	versions    map[string]string
	broken      []string
	deliveries  []XDSDelivery
}

func newXDSProxy(mode XDSMode) *xdsProxy {
	return &xdsProxy{
		mode:       mode,
		held:       map[string]map[string]heldResource{},
		subscribed: map[string]map[string]struct{}{resourcev3.EndpointType: {}},
		warming:    map[string]struct{}{},
		active:     map[string]struct{}{},
		nonces:     map[string]string{},
		versions:   map[string]string{},
	}
}

// accepted copies the accepted resources of a type.
func accepted[T proto.Message](p *xdsProxy, typeURL string) map[string]T {
	out := make(map[string]T, len(p.held[typeURL]))
	for name, res := range p.held[typeURL] {
		if m, ok := res.message.(T); ok {
			out[name] = m
		}
	}
	return out
}

// hello returns the first requests of a stream. On a later stream they present
// what was accepted before.
func (p *xdsProxy) hello() []xdsRequest {
	p.withheld = nil
	clear(p.nonces)
	requests := []xdsRequest{p.first(resourcev3.ClusterType)}
	if len(p.subscribed[resourcev3.EndpointType]) > 0 {
		requests = append(requests, p.first(resourcev3.EndpointType))
	}
	if p.listening {
		requests = append(requests, p.first(resourcev3.ListenerType))
	}
	if p.scoped {
		requests = append(requests, p.first(resourcev3.ScopedRouteType))
	}
	return requests
}

// first returns the first request of a type on a stream.
func (p *xdsProxy) first(typeURL string) xdsRequest {
	names := slices.Sorted(maps.Keys(p.subscribed[typeURL]))
	if p.mode == XDSStateOfTheWorld {
		return xdsRequest{typeURL: typeURL, names: names, version: p.versions[typeURL]}
	}
	initial := map[string]string{}
	for name, res := range p.held[typeURL] {
		initial[name] = res.version
	}
	return xdsRequest{typeURL: typeURL, subscribe: names, initial: initial}
}

// take accepts or refuses a response and returns the requests that follow.
func (p *xdsProxy) take(r xdsResponse, refuse func(typeURL, name string) error) ([]xdsRequest, error) {
	delivery := XDSDelivery{TypeURL: r.typeURL, Removed: r.removed}
	var refusals []error
	changed := map[string]struct{}{}
	listed := map[string]struct{}{}
	for _, res := range r.resources {
		name, held, err := readResource(r.typeURL, res)
		if err != nil {
			return nil, err
		}
		delivery.Names = append(delivery.Names, name)
		listed[name] = struct{}{}
		old, had := p.held[r.typeURL][name]
		isNew := !had || !bytes.Equal(old.body, held.body)
		if refuse != nil && isNew {
			if err := refuse(r.typeURL, name); err != nil {
				refusals = append(refusals, err)
				continue
			}
		}
		if isNew {
			changed[name] = struct{}{}
		}
		p.hold(r.typeURL, name, held)
	}
	refusal := errors.Join(refusals...)
	delivery.Refused = refusal != nil
	p.deliveries = append(p.deliveries, delivery)
	p.nonces[r.typeURL] = r.nonce
	if refusal == nil {
		p.versions[r.typeURL] = r.version
	}
	followers := p.follow(r, changed, listed)
	p.inspect()
	return p.withAnswer(r, refusal, followers), nil
}

// hold keeps an accepted resource.
func (p *xdsProxy) hold(typeURL, name string, res heldResource) {
	if p.held[typeURL] == nil {
		p.held[typeURL] = map[string]heldResource{}
	}
	p.held[typeURL][name] = res
}

// readResource unpacks a resource and finds its name.
func readResource(typeURL string, res xdsResource) (string, heldResource, error) {
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
		return "", heldResource{}, fmt.Errorf("response of type %q was never asked for", typeURL)
	}
	if err := res.body.UnmarshalTo(message); err != nil {
		return "", heldResource{}, fmt.Errorf("unpack %s: %w", typeURL, err)
	}
	name := ownName(message)
	if res.name != "" && res.name != name {
		return "", heldResource{}, fmt.Errorf("resource %q calls itself %q", res.name, name)
	}
	return name, heldResource{version: res.version, body: res.body.GetValue(), message: message}, nil
}

// ownName is the name in a resource's body.
func ownName(message proto.Message) string {
	switch m := message.(type) {
	case *endpointv3.ClusterLoadAssignment:
		return m.GetClusterName()
	case interface{ GetName() string }:
		return m.GetName()
	default:
		return ""
	}
}

// follow draws the consequences of a response: what came, changed and went, and
// what to subscribe to.
func (p *xdsProxy) follow(r xdsResponse, changed, listed map[string]struct{}) []xdsRequest {
	switch r.typeURL {
	case resourcev3.ClusterType:
		p.dropMissing(r, listed, func(name string) {
			delete(p.warming, name)
			delete(p.active, name)
		})
		again := p.warm(changed)
		return p.resubscribe(resourcev3.EndpointType, p.endpointNames(), again)
	case resourcev3.ListenerType:
		p.dropMissing(r, listed, func(string) {})
		if p.scoped || !p.hasScopedRoutes() {
			return nil
		}
		p.scoped = true
		return []xdsRequest{p.first(resourcev3.ScopedRouteType)}
	case resourcev3.ScopedRouteType:
		p.dropMissing(r, listed, func(string) {})
	case resourcev3.EndpointType:
		p.warmUp(listed)
		p.warmUp(setOf(r.removed))
	default:
	}
	return nil
}

// dropMissing removes what a response of clusters, listeners or scopes says is gone.
func (p *xdsProxy) dropMissing(r xdsResponse, listed map[string]struct{}, also func(name string)) {
	gone := r.removed
	if p.mode == XDSStateOfTheWorld {
		gone = nil
		for name := range p.held[r.typeURL] {
			if _, still := listed[name]; !still {
				gone = append(gone, name)
			}
		}
	}
	for _, name := range gone {
		delete(p.held[r.typeURL], name)
		also(name)
	}
}

// warm begins to warm the clusters that came or changed, and tells whether one of
// them needs endpoints that were subscribed to before.
func (p *xdsProxy) warm(changed map[string]struct{}) bool {
	again := false
	for name := range changed {
		endpoints := p.endpointsOf(name)
		if endpoints == "" {
			p.active[name] = struct{}{}
			continue
		}
		p.warming[name] = struct{}{}
		if _, had := p.subscribed[resourcev3.EndpointType][endpoints]; had {
			again = true
		}
	}
	return again
}

// warmUp ends the warming of the clusters that waited for these endpoints.
func (p *xdsProxy) warmUp(endpoints map[string]struct{}) {
	for name := range p.warming {
		if _, came := endpoints[p.endpointsOf(name)]; came {
			delete(p.warming, name)
			p.active[name] = struct{}{}
		}
	}
}

// endpointsOf is the name of a cluster's endpoints; "" without EDS.
func (p *xdsProxy) endpointsOf(name string) string {
	cluster, ok := p.held[resourcev3.ClusterType][name].message.(*clusterv3.Cluster)
	if !ok || cluster.GetType() != clusterv3.Cluster_EDS {
		return ""
	}
	if service := cluster.GetEdsClusterConfig().GetServiceName(); service != "" {
		return service
	}
	return name
}

// endpointNames are the names of all endpoints that the clusters need.
func (p *xdsProxy) endpointNames() map[string]struct{} {
	names := map[string]struct{}{}
	for name := range p.held[resourcev3.ClusterType] {
		if endpoints := p.endpointsOf(name); endpoints != "" {
			names[endpoints] = struct{}{}
		}
	}
	return names
}

// hasScopedRoutes tells whether a listener gets its routes by scope.
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

// resubscribe changes the subscription of a type to the given names. again asks
// for it even if it didn't change, which is said in state of the world only.
func (p *xdsProxy) resubscribe(typeURL string, names map[string]struct{}, again bool) []xdsRequest {
	before := p.subscribed[typeURL]
	p.subscribed[typeURL] = names
	r := xdsRequest{typeURL: typeURL}
	for name := range names {
		if _, had := before[name]; !had {
			r.subscribe = append(r.subscribe, name)
		}
	}
	for name := range before {
		if _, still := names[name]; !still {
			r.unsubscribe = append(r.unsubscribe, name)
			delete(p.held[typeURL], name)
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
	if !changed && !again {
		return nil
	}
	return []xdsRequest{p.wholeRequest(typeURL)}
}

// wholeRequest is a request in state of the world as things stand.
func (p *xdsProxy) wholeRequest(typeURL string) xdsRequest {
	return xdsRequest{
		typeURL: typeURL, nonce: p.nonces[typeURL], version: p.versions[typeURL],
		names: slices.Sorted(maps.Keys(p.subscribed[typeURL])),
	}
}

// withAnswer puts the ACK or NACK of a response before the requests that follow
// from it, and whatever the end of warming sets free behind them.
func (p *xdsProxy) withAnswer(r xdsResponse, refusal error, followers []xdsRequest) []xdsRequest {
	answer := xdsRequest{typeURL: r.typeURL, nonce: r.nonce, refusal: refusal}
	if p.mode == XDSStateOfTheWorld {
		answer = p.wholeRequest(r.typeURL)
		answer.refusal = refusal
	}
	requests := followers
	if r.typeURL == resourcev3.ClusterType && p.initialised && len(p.warming) > 0 {
		p.withheld = append(p.withheld, answer)
	} else {
		requests = append([]xdsRequest{answer}, followers...)
	}
	if len(p.warming) > 0 {
		return requests
	}
	requests = append(requests, p.withheld...)
	p.withheld = nil
	p.initialised = true
	if !p.listening {
		p.listening = true
		requests = append(requests, p.first(resourcev3.ListenerType))
	}
	return requests
}

// inspect looks for routes to clusters that couldn't be used now.
func (p *xdsProxy) inspect() {
	for name, scope := range accepted[*routev3.ScopedRouteConfiguration](p, resourcev3.ScopedRouteType) {
		for _, cluster := range routedClusters(scope.GetRouteConfiguration()) {
			if _, usable := p.active[cluster]; !usable {
				p.broken = append(p.broken, fmt.Sprintf("after delivery %d scope %s named cluster %s", len(p.deliveries), name, cluster))
			}
		}
	}
}

// routedClusters are the clusters that routes send requests to.
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

// setOf makes a set of a list.
func setOf(names []string) map[string]struct{} {
	set := make(map[string]struct{}, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}
