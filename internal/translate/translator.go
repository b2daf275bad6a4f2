package translate

import (
	"fmt"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// Update is what is new in Resources since the ones before.
type Update struct {
	// Changed are the messages that came or changed. A virtual host is one by itself, of the type VirtualHost and named VirtualHostName, so that one of
	// a thousand can change without the others; a route configuration in Changed is there with all its virtual hosts.
	Changed Resources
	// Removed are the names of those that are gone, by type URL, sorted.
	Removed map[string][]string
}

// VirtualHostName is the name of a host's virtual host as a resource of its own: <route configuration>/<virtual host>, as in VHDS
// (https://www.envoyproxy.io/docs/envoy/v1.40.0/configuration/http/http_conn_man/vhds).
func VirtualHostName(host ir.Host) string { return RouteConfigName + "/" + string(host) }

// Translator is Options.Envoy for a Config that changes: what its Updates have told adds up to exactly what Envoy returns for the Config as it is. An Update
// costs what the objects and hosts in it cost, and a Translator remembers the names of clusters, no messages.
//
// It is not safe for concurrent use. Make it with NewTranslator.
type Translator struct {
	options   Options
	factory   clusterFactory
	clusters  map[ir.Key]map[string]ir.Protocol // the protocols by the name of the cluster, by object
	isStarted bool
}

// NewTranslator returns a Translator of an empty Config. An error is a bug.
func NewTranslator(options Options) (*Translator, error) {
	factory, err := newClusterFactory(options)
	if err != nil {
		return nil, fmt.Errorf("clusters: %w", err)
	}
	return &Translator{options: options, factory: factory, clusters: map[ir.Key]map[string]ir.Protocol{}}, nil
}

// Update translates what is new in the Config. The first one tells everything and has the route configuration as a whole, and the listener. What package
// resolve makes can always be translated, so an error is a bug; the Translator is of no use any more then.
func (t *Translator) Update(update ir.Update) (Update, error) {
	out := Update{Changed: Resources{}, Removed: map[string][]string{}}
	if t.isStarted {
		out.reserve(resourcev3.VirtualHostType, len(update.Hosts))
	} else {
		for _, typeURL := range []string{resourcev3.ListenerType, resourcev3.RouteType, resourcev3.ClusterType, resourcev3.EndpointType} {
			out.reserve(typeURL, 0)
		}
		listener, err := t.options.listener()
		if err != nil {
			return Update{}, fmt.Errorf("listener %s: %w", ListenerName, err)
		}
		out.Changed[resourcev3.ListenerType][ListenerName] = listener
	}
	if err := t.translateHosts(update.Hosts, out); err != nil {
		return Update{}, fmt.Errorf("route configuration %s: %w", RouteConfigName, err)
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

// reserve makes room for messages of a type.
func (u Update) reserve(typeURL string, count int) {
	if u.Changed[typeURL] == nil {
		u.Changed[typeURL] = make(map[string]proto.Message, count)
	}
}

// translateHosts makes the virtual hosts: each a resource of its own, or all of them the first table.
func (t *Translator) translateHosts(hosts map[ir.Host]ir.Config, out Update) error {
	table := emptyTable()
	for host, config := range hosts {
		if len(config.Routes) == 0 {
			if t.isStarted {
				out.Removed[resourcev3.VirtualHostType] = append(out.Removed[resourcev3.VirtualHostType], VirtualHostName(host))
			}
			continue
		}
		translated, err := virtualHost(host, config.Routes, config.Services)
		if err != nil {
			return err
		}
		if t.isStarted {
			out.Changed[resourcev3.VirtualHostType][VirtualHostName(host)] = translated
		} else {
			table.VirtualHosts = append(table.VirtualHosts, translated)
		}
	}
	if !t.isStarted {
		slices.SortFunc(table.GetVirtualHosts(), func(a, b *routev3.VirtualHost) int { return ir.Host(a.GetName()).Compare(ir.Host(b.GetName())) })
		out.Changed[resourcev3.RouteType][RouteConfigName] = table
	}
	return nil
}

// translateObject makes the clusters of one object that are new, and all of its load assignments, which Update has because they may be new.
func (t *Translator) translateObject(owner ir.Key, config ir.Config, out Update) error {
	before, now := t.clusters[owner], make(map[string]ir.Protocol, 2)
	for _, route := range config.Routes {
		for _, backend := range route.Backends {
			name := ClusterName(owner, backend.Service)
			if _, done := now[name]; done {
				continue
			}
			now[name] = backend.Protocol
			if had, known := before[name]; !known || had != backend.Protocol {
				cluster, err := t.factory.cluster(name, backend.Protocol)
				if err != nil {
					return fmt.Errorf("cluster %s: %w", name, err)
				}
				out.reserve(resourcev3.ClusterType, 1)
				out.Changed[resourcev3.ClusterType][name] = cluster
			}
			out.reserve(resourcev3.EndpointType, 2)
			out.Changed[resourcev3.EndpointType][name] = loadAssignment(name, config.Services[backend.ServicePort()])
		}
	}
	for name := range before {
		if _, still := now[name]; !still {
			out.Removed[resourcev3.ClusterType] = append(out.Removed[resourcev3.ClusterType], name)
			out.Removed[resourcev3.EndpointType] = append(out.Removed[resourcev3.EndpointType], name)
		}
	}
	if len(now) == 0 {
		delete(t.clusters, owner)
	} else {
		t.clusters[owner] = now
	}
	return nil
}
