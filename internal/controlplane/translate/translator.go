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
)

// Update is what is new in Resources since the ones before.
type Update struct {
	// Changed are the messages that came or changed.
	Changed Resources
	// Removed are the names of those that are gone, by type URL, sorted.
	Removed map[string][]string
}

// Translator is Options.Envoy for a fleet's Config that changes: what its Updates have told adds up to
// exactly what Envoy returns for the Config as it is. An Update costs what the objects and hosts in
// it cost, and all wildcards if one of them is new. A Translator remembers the names of clusters
// and the virtual hosts of wildcards.
//
// It is not safe for concurrent use. Make it with NewTranslator.
type Translator struct {
	options  Options
	factory  clusterFactory
	scopes   scopeFactory
	clusters map[model.Key][]clusterOf // by object

	wildcards map[model.Host]*routev3.VirtualHost
	certified map[model.Host]struct{} // the hosts that have a certificate
	isStarted bool
}

// clusterOf is a cluster of an object.
type clusterOf struct {
	name     string
	protocol model.Protocol
	isMirror bool // It gets copies of requests.
	tuning   *model.Tuning
}

// NewTranslator returns a Translator of an empty Config. An error is a bug.
func NewTranslator(options Options) (*Translator, error) {
	factory, err := newClusterFactory(options)
	if err != nil {
		return nil, fmt.Errorf("clusters: %w", err)
	}
	scopes, err := newScopeFactory(options.Hold)
	if err != nil {
		return nil, fmt.Errorf("scopes: %w", err)
	}
	return &Translator{
		options: options, factory: factory, scopes: scopes,
		clusters: map[model.Key][]clusterOf{}, wildcards: map[model.Host]*routev3.VirtualHost{}, certified: map[model.Host]struct{}{},
	}, nil
}

// Update translates what is new in the Config. The first one tells everything and has the listener.
// What package resolve makes can always be translated, so an error, which names the resource, is a
// bug; the Translator is of no use any more then.
func (t *Translator) Update(update model.Update) (Update, error) {
	out := Update{Changed: Resources{}, Removed: map[string][]string{}}
	if !t.isStarted {
		if err := t.begin(out); err != nil {
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

// IsEmpty says that the Config has no Route.
func (t *Translator) IsEmpty() bool { return len(t.clusters) == 0 }

// begin adds what the first Update has whatever the Config.
func (t *Translator) begin(out Update) error {
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
	out.Changed[resourcev3.ListenerType][ListenerName] = listener
	if err := t.options.addTLS(out); err != nil {
		return err
	}
	return t.options.addHold(out)
}

// addStatic adds what doesn't depend on the Config.
func (u Update) addStatic(
	listener *listenerv3.Listener, cluster *clusterv3.Cluster, assignment *endpointv3.ClusterLoadAssignment,
) {
	u.Changed[resourcev3.ListenerType][listener.GetName()] = listener
	u.Changed[resourcev3.ClusterType][cluster.GetName()] = cluster
	u.Changed[resourcev3.EndpointType][assignment.GetClusterName()] = assignment
}

// reserve makes room for messages of a type.
func (u Update) reserve(typeURL string, count int) {
	if u.Changed[typeURL] == nil {
		u.Changed[typeURL] = make(map[string]proto.Message, count)
	}
}

// translateHosts makes the scopes of hosts, and that of the wildcards if one of them is new.
func (t *Translator) translateHosts(hosts map[model.Host]model.Config, out Update) error {
	anyWildcard := !t.isStarted
	if len(hosts) > 0 {
		out.reserve(resourcev3.ScopedRouteType, len(hosts))
	}
	for host, config := range hosts {
		var err error
		switch {
		case !host.IsExact():
			anyWildcard = true
			err = t.keepWildcard(host, config)
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

// keepWildcard makes the virtual host of a wildcard, or forgets it.
func (t *Translator) keepWildcard(host model.Host, config model.Config) error {
	if len(config.Routes) == 0 {
		delete(t.wildcards, host)
		return nil
	}
	virtual, err := t.scopes.virtualHost(host, config)
	t.wildcards[host] = virtual
	return err
}

// translateObject makes the clusters of one object that are new, and all of its load assignments,
// which Update has because they may be new.
func (t *Translator) translateObject(owner model.Key, config model.Config, out Update) error {
	before := t.clusters[owner]
	var now []clusterOf
	for _, route := range config.Routes {
		for _, each := range destinationsOf(route, config.Services) {
			cluster := each.clusterOf
			if slices.ContainsFunc(now, cluster.hasName) {
				continue
			}
			if had := slices.IndexFunc(before, cluster.hasName); had >= 0 {
				cluster.name = before[had].name // One text for all who keep it.
			}
			now = append(now, cluster)
			isNew := !slices.ContainsFunc(before, cluster.isSame)
			if err := t.translateBackend(cluster, isNew, each.isHeld, config.Services[each.at], out); err != nil {
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

// destination is a cluster of a Route with what it leads to, and whether its requests are held.
type destination struct {
	clusterOf

	at     model.ServicePort
	isHeld bool
}

// destinationsOf are the clusters of a Route.
func destinationsOf(route model.Route, services map[model.ServicePort]model.Endpoints) []destination {
	var found []destination
	held, tuning := model.WaitsForEndpoint(route, services), route.Tuning
	for i, backend := range route.Backends {
		cluster := clusterOf{name: ClusterName(route.Owner, backend.Service), protocol: backend.Protocol, tuning: tuning}
		found = append(found, destination{cluster, backend.ServicePort(), held[i]})
	}
	if fault.SwappedEndpoints && len(found) == 2 && // Only in a mutant.
		min(len(services[found[0].at].Ready), len(services[found[1].at].Ready)) > 0 {
		found[0].at, found[1].at = found[1].at, found[0].at
	}
	if failover := route.Failover; failover != nil {
		cluster := clusterOf{name: FailoverName(route.Owner, failover.Service), protocol: failover.Protocol, tuning: tuning}
		found = append(found, destination{cluster, failover.ServicePort(), false})
	}
	if route.HasMirrorRoute() {
		canary := route.Canary()
		cluster := clusterOf{name: MirrorName(route.Owner, canary.Service), protocol: canary.Protocol, isMirror: true, tuning: tuning}
		found = append(found, destination{cluster, canary.ServicePort(), false})
	}
	return found
}

// assignment makes one load assignment.
func (t *Translator) assignment(name string, endpoints model.Endpoints, isHeld bool) (*endpointv3.ClusterLoadAssignment, error) {
	if isHeld && t.options.Hold.isOn() {
		return t.options.Hold.netAssignment(name, endpoints)
	}
	return loadAssignment(name, endpoints)
}

// translateBackend makes the load assignment of a cluster, and the cluster if that is new.
func (t *Translator) translateBackend(cluster clusterOf, isNew, isHeld bool, endpoints model.Endpoints, out Update) error {
	if isNew {
		made, err := t.factory.cluster(cluster)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", cluster.name, err)
		}
		out.reserve(resourcev3.ClusterType, 1)
		out.Changed[resourcev3.ClusterType][cluster.name] = made
	}
	assignment, err := t.assignment(cluster.name, endpoints, isHeld)
	if err != nil {
		return fmt.Errorf("load assignment %s: %w", cluster.name, err)
	}
	out.reserve(resourcev3.EndpointType, 2)
	out.Changed[resourcev3.EndpointType][cluster.name] = assignment
	return nil
}

// isSame says whether another cluster is the same in every part.
func (c clusterOf) isSame(other clusterOf) bool {
	return c.name == other.name && c.protocol == other.protocol && c.isMirror == other.isMirror && c.tuning.OfCluster() == other.tuning.OfCluster()
}

// hasName says whether another cluster has the same name.
func (c clusterOf) hasName(other clusterOf) bool { return c.name == other.name }

// removeMissing removes the clusters that an object no longer has, and their load assignments.
func (u Update) removeMissing(before, now []clusterOf) {
	for _, cluster := range before {
		if !slices.ContainsFunc(now, cluster.hasName) {
			u.Removed[resourcev3.ClusterType] = append(u.Removed[resourcev3.ClusterType], cluster.name)
			u.Removed[resourcev3.EndpointType] = append(u.Removed[resourcev3.EndpointType], cluster.name)
		}
	}
}
