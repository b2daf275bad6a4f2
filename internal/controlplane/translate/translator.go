package translate

import (
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/fault"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

// Update is the difference between two Resources.
type Update struct {
	// Changed are the added and changed messages.
	Changed Resources
	// Removed are the names of removed resources by type URL, sorted.
	Removed map[string][]string
}

// Translator implements Options.Envoy for a fleet's changing Config. The sum of its Updates equals the result of
// Envoy for the current Config. The cost of an Update depends on its objects and hosts; a changed wildcard costs all
// wildcards. A Translator retains the names of clusters and the virtual hosts of wildcards.
//
// It is not safe for concurrent use. Make it with NewTranslator.
type Translator struct {
	options  Options
	factory  clusterFactory
	scopes   scopeFactory
	clusters map[model.Key][]clusterSpec // by object

	wildcards       map[model.Host]*routev3.VirtualHost
	hostsWithSecret map[model.Host]struct{} // hosts with a certificate
	isStarted       bool
}

// clusterSpec describes a cluster of an object.
type clusterSpec struct {
	name     string
	protocol model.Protocol
	isMirror bool // The cluster receives copies of requests.
	settings *model.EnvoySettings
	affinity affinity.Key // of the requests to an endpoint
}

// NewTranslator returns a Translator for an empty Config. An error is a bug.
func NewTranslator(options Options) (*Translator, error) {
	factory, err := newClusterFactory(options)
	if err != nil {
		return nil, fmt.Errorf("clusters: %w", err)
	}
	scopes, err := newScopeFactory(options)
	if err != nil {
		return nil, fmt.Errorf("scopes: %w", err)
	}
	return &Translator{
		options: options, factory: factory, scopes: scopes,
		clusters: map[model.Key][]clusterSpec{}, wildcards: map[model.Host]*routev3.VirtualHost{},
		hostsWithSecret: map[model.Host]struct{}{},
	}, nil
}

// Update translates a change of the Config. The first call returns all resources, including the listener. Every
// result of package resolve can be translated, so an error, which names the resource, is a bug; the Translator may
// not be used afterwards.
func (t *Translator) Update(update model.Update) (Update, error) {
	out := Update{Changed: Resources{}, Removed: map[string][]string{}}
	if !t.isStarted {
		if err := t.addInitial(out); err != nil {
			return Update{}, err
		}
	}
	if err := t.translateHosts(update.Hosts, out); err != nil {
		return Update{}, err
	}
	if err := t.translateCertificates(update.Certificates, out); err != nil {
		return Update{}, err
	}
	for owner, config := range update.Objects {
		if err := t.translateObject(owner, config, out); err != nil {
			return Update{}, err
		}
	}
	for _, names := range out.Removed {
		slices.Sort(names)
	}
	t.isStarted = true
	return out, nil
}

// IsEmpty reports whether the Config has no Route.
func (t *Translator) IsEmpty() bool { return len(t.clusters) == 0 }

// addInitial adds the resources that do not depend on the Config.
func (t *Translator) addInitial(out Update) error {
	for _, typeURL := range []string{
		resourcev3.ListenerType, resourcev3.ScopedRouteType, resourcev3.ClusterType, resourcev3.EndpointType,
		resourcev3.SecretType,
	} {
		out.reserve(typeURL, 0)
	}
	listener, err := t.options.listener()
	if err != nil {
		return fmt.Errorf("listener %s: %w", ListenerName, err)
	}
	if err := t.options.addClientListener(listener, out); err != nil {
		return fmt.Errorf("listener %s: %w", ListenerName, err)
	}
	if err := t.options.addTLS(out); err != nil {
		return err
	}
	if err := t.options.addTracing(out); err != nil {
		return err
	}
	return t.options.addHold(out)
}

// addStatic adds resources that do not depend on the Config.
func (u Update) addStatic(
	listener *listenerv3.Listener, cluster *clusterv3.Cluster, assignment *endpointv3.ClusterLoadAssignment,
) {
	u.Changed[resourcev3.ListenerType][listener.GetName()] = listener
	u.Changed[resourcev3.ClusterType][cluster.GetName()] = cluster
	u.Changed[resourcev3.EndpointType][assignment.GetClusterName()] = assignment
}

// reserve creates the map for messages of a type.
func (u Update) reserve(typeURL string, count int) {
	if u.Changed[typeURL] == nil {
		u.Changed[typeURL] = make(map[string]proto.Message, count)
	}
}

// translateHosts translates the scopes of hosts, and the wildcard scope if a wildcard changed.
func (t *Translator) translateHosts(hosts map[model.Host]model.Config, out Update) error {
	anyWildcard := !t.isStarted
	if len(hosts) > 0 {
		out.reserve(resourcev3.ScopedRouteType, len(hosts))
	}
	for host, config := range hosts {
		var err error
		switch {
		case !hasScope(host):
			anyWildcard = true
			err = t.updateWildcard(host, config)
		case len(config.Routes) > 0:
			out.Changed[resourcev3.ScopedRouteType][string(host)], err = t.scopes.exact(host, config)
		case t.isStarted:
			out.Removed[resourcev3.ScopedRouteType] = append(out.Removed[resourcev3.ScopedRouteType], string(host))
		}
		if err != nil {
			return fmt.Errorf("scope %s: %w", host, err)
		}
	}
	if !anyWildcard {
		return nil
	}
	scope, err := t.scopes.wildcards(t.wildcards)
	if err != nil {
		return fmt.Errorf("scope %s: %w", WildcardScope, err)
	}
	out.reserve(resourcev3.ScopedRouteType, 1)
	out.Changed[resourcev3.ScopedRouteType][WildcardScope] = scope
	return nil
}

// updateWildcard stores the virtual host of a wildcard, or removes it.
func (t *Translator) updateWildcard(host model.Host, config model.Config) error {
	if len(config.Routes) == 0 {
		delete(t.wildcards, host)
		return nil
	}
	virtual, err := t.scopes.virtualHost(host, config)
	t.wildcards[host] = virtual
	return err
}

// translateObject translates the changed clusters of one object. It translates all load assignments, because any of
// them may have changed.
func (t *Translator) translateObject(owner model.Key, config model.Config, out Update) error {
	before := t.clusters[owner]
	var now []clusterSpec
	for _, route := range config.Routes {
		for _, target := range destinationsOf(route, config.Services) {
			cluster := target.clusterSpec
			if slices.ContainsFunc(now, cluster.hasName) {
				continue
			}
			if previous := slices.IndexFunc(before, cluster.hasName); previous >= 0 {
				cluster.name = before[previous].name // Share one string.
			}
			now = append(now, cluster)
			isNew := !slices.ContainsFunc(before, cluster.equal)
			endpoints := config.Services[target.at]
			if !t.options.appliesHints(route) {
				endpoints.Hints = nil
			}
			if err := t.translateBackend(cluster, isNew, target.isHeld, endpoints, out); err != nil {
				return err
			}
		}
	}
	out.removeMissing(before, now)
	if len(now) == 0 {
		delete(t.clusters, owner)
	} else {
		t.clusters[owner] = slices.Clip(now)
	}
	return nil
}

// destination is a cluster of a Route with its Service, and whether its requests are queued.
type destination struct {
	clusterSpec

	at     model.ServicePort
	isHeld bool
}

// destinationsOf returns the destinations of a Route.
func destinationsOf(route model.Route, services map[model.ServicePort]model.Endpoints) []destination {
	var destinations, uncounted []destination
	isWaiting, settings := model.WaitsForEndpoint(route, services), route.EnvoySettings
	for i, backend := range route.Backends {
		cluster := clusterSpec{
			name: ClusterName(route.Owner, backend.Service), protocol: backend.Protocol,
			settings: settings, affinity: route.Affinity,
		}
		destinations = append(destinations, destination{cluster, backend.ServicePort(), isWaiting[i]})
		if route.HasUncountedRequests() {
			cluster.name = UncountedName(route.Owner, backend.Service)
			uncounted = append(uncounted, destination{cluster, backend.ServicePort(), false})
		}
	}
	if fault.SwappedEndpoints && len(destinations) == 2 && // Only in a mutant.
		min(len(services[destinations[0].at].Ready), len(services[destinations[1].at].Ready)) > 0 {
		destinations[0].at, destinations[1].at = destinations[1].at, destinations[0].at
	}
	if failover := route.Failover; failover != nil {
		cluster := clusterSpec{
			name: FailoverName(route.Owner, failover.Service), protocol: failover.Protocol,
			settings: settings,
		}
		destinations = append(destinations, destination{cluster, failover.ServicePort(), false})
	}
	if route.HasMirrorRoute() {
		canary := route.Canary()
		cluster := clusterSpec{
			name: MirrorName(route.Owner, canary.Service), protocol: canary.Protocol, isMirror: true,
			settings: settings,
		}
		destinations = append(destinations, destination{cluster, canary.ServicePort(), false})
	}
	return append(destinations, uncounted...)
}

// assignment translates one load assignment.
func (t *Translator) assignment(
	name string, endpoints model.Endpoints, isHeld bool,
) (*endpointv3.ClusterLoadAssignment, error) {
	if isHeld && t.options.Hold.isEnabled() {
		return t.options.Hold.fallbackAssignment(name, endpoints)
	}
	return loadAssignment(name, endpoints)
}

// translateBackend translates the load assignment of a cluster, and the cluster itself if it changed.
func (t *Translator) translateBackend(
	cluster clusterSpec, isNew, isHeld bool, endpoints model.Endpoints, out Update,
) error {
	if isNew {
		message, err := t.factory.cluster(cluster)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", cluster.name, err)
		}
		out.reserve(resourcev3.ClusterType, 1)
		out.Changed[resourcev3.ClusterType][cluster.name] = message
	}
	assignment, err := t.assignment(cluster.name, endpoints, isHeld)
	if err != nil {
		return fmt.Errorf("load assignment %s: %w", cluster.name, err)
	}
	out.reserve(resourcev3.EndpointType, 2)
	out.Changed[resourcev3.EndpointType][cluster.name] = assignment
	return nil
}

// equal reports whether two clusters are equal.
func (c clusterSpec) equal(other clusterSpec) bool {
	return c.name == other.name && c.protocol == other.protocol && c.isMirror == other.isMirror &&
		c.affinity == other.affinity && c.settings.OfCluster() == other.settings.OfCluster() &&
		c.hasOwnRetryConditions() == other.hasOwnRetryConditions() && c.mirrorTimeout() == other.mirrorTimeout()
}

// hasName reports whether another cluster has the same name.
func (c clusterSpec) hasName(other clusterSpec) bool { return c.name == other.name }

// removeMissing removes the clusters that an object no longer has, and their load assignments.
func (u Update) removeMissing(before, now []clusterSpec) {
	for _, cluster := range before {
		if !slices.ContainsFunc(now, cluster.hasName) {
			u.Removed[resourcev3.ClusterType] = append(u.Removed[resourcev3.ClusterType], cluster.name)
			u.Removed[resourcev3.EndpointType] = append(u.Removed[resourcev3.EndpointType], cluster.name)
		}
	}
}
