package status_test

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"sync"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// proxies plays the discovery server of one replica and the proxies that are connected to it. It is a status.Source.
type proxies struct {
	mu        sync.Mutex
	published map[string]map[string]string // version by type URL and name
	streams   map[string]map[string]map[string]status.ResourceAck
	numbers   map[string]uint64
	changed   chan struct{}
}

func newProxies() *proxies {
	return &proxies{
		streams: map[string]map[string]map[string]status.ResourceAck{}, numbers: map[string]uint64{},
		changed: make(chan struct{}, 1),
	}
}

// publish sets the published versions of all clusters, load assignments and scopes of config. The version of a scope is
// its content.
func (p *proxies) publish(config model.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.published = map[string]map[string]string{
		resourcev3.ScopedRouteType: {}, resourcev3.ClusterType: {}, resourcev3.EndpointType: {},
	}
	for _, route := range config.Routes {
		for _, backend := range route.Backends {
			name := translate.ClusterName(route.Owner, backend.Service)
			p.published[resourcev3.ClusterType][name] = "c"
			p.published[resourcev3.EndpointType][name] = "e"
		}
		weights := model.EffectiveWeights(route.Backends, config.Services)
		p.published[resourcev3.ScopedRouteType][translate.ScopeOf(route.Match.Host)] += fmt.Sprint(route.Owner,
			route.Match, weights)
	}
}

// confirm makes a proxy ACK all published resources, and connects it if it isn't connected.
func (p *proxies) confirm(peer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	confirmed := map[string]map[string]status.ResourceAck{}
	for typeURL, versions := range p.published {
		confirmed[typeURL] = map[string]status.ResourceAck{}
		for name, version := range versions {
			confirmed[typeURL][name] = status.ResourceAck{Acked: version}
		}
	}
	if p.numbers[peer] == 0 {
		p.numbers[peer] = uint64(len(p.numbers) + 1)
	}
	p.streams[peer] = confirmed
	p.signal()
}

// setAck sets the ACK or NACK of a proxy about one resource.
func (p *proxies) setAck(peer, typeURL, name string, ack status.ResourceAck) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[peer][typeURL][name] = ack
	p.signal()
}

// signal signals a change. The caller holds the lock.
func (p *proxies) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Poll implements status.Source. Every resource counts as changed.
func (p *proxies) Poll() []status.Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	var streams []status.Stream
	for peer := range p.streams {
		streams = append(streams, p.stream(peer))
	}
	return streams
}

// stream returns the stream of a proxy. The caller holds the lock.
func (p *proxies) stream(peer string) stream {
	at, _ := netip.ParseAddrPort(peer)
	return stream{
		number: p.numbers[peer], address: at.Addr().Unmap(),
		changed: func(typeURL string) iter.Seq[string] {
			p.mu.Lock()
			defer p.mu.Unlock()
			return slices.Values(slices.Collect(maps.Keys(p.published[typeURL])))
		},
		confirmation: func(typeURL, name string) status.ResourceAck {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.streams[peer][typeURL][name]
		},
	}
}

// stream is a status.Stream of the fleet apps.
type stream struct {
	number       uint64
	address      netip.Addr
	changed      func(typeURL string) iter.Seq[string]
	confirmation func(typeURL, name string) status.ResourceAck
}

func (s stream) Number() uint64                          { return s.number }
func (s stream) Address() netip.Addr                     { return s.address }
func (s stream) Fleet() model.Fleet                      { return "apps" }
func (s stream) Changed(typeURL string) iter.Seq[string] { return s.changed(typeURL) }

func (s stream) ResourceAck(typeURL, name string) status.ResourceAck {
	return s.confirmation(typeURL, name)
}

// Versions implements status.Source.
func (p *proxies) Versions() status.Versions {
	p.mu.Lock()
	defer p.mu.Unlock()
	published := p.published
	return func(_ model.Fleet, typeURL, name string) string { return published[typeURL][name] }
}

// publications returns the publications of all objects in a Config.
func publications(config model.Config) map[model.Key]status.Publication {
	divided := map[model.Key]status.Publication{}
	for key, own := range byObject(config) {
		divided[key] = status.PublicationOf(own)
	}
	return divided
}

// byObject splits a Config by object.
func byObject(config model.Config) map[model.Key]model.Config {
	parts := map[model.Key]model.Config{}
	for _, route := range config.Routes {
		part := parts[route.Owner]
		part.Routes, part.Services = append(part.Routes, route), config.Services
		parts[route.Owner] = part
	}
	return parts
}

// Changed implements status.Source.
func (p *proxies) Changed() <-chan struct{} { return p.changed }

// readyProxy returns a Ready proxy.
func readyProxy(name string, addresses ...string) model.Proxy {
	proxy := model.Proxy{Name: name, IsReady: true}
	for _, address := range addresses {
		proxy.Addresses = append(proxy.Addresses, netip.MustParseAddr(address))
	}
	return proxy
}

// splitAt returns a Config in which each object, by its name in namespace apps, has its own host and a canary at a
// weight.
func splitAt(weights map[string]uint32) model.Config {
	config := model.Config{Services: map[model.ServicePort]model.Endpoints{}}
	for _, name := range []string{"other", "shop"} {
		weight, ok := weights[name]
		if !ok {
			continue
		}
		route := model.Route{
			Owner: model.Key{Namespace: "apps", Name: name}, Fleet: "apps",
			Match: model.Match{Host: model.Host(name + ".test"), PathPrefix: "/"},
		}
		for service, share := range map[string]uint32{"-stable": 100 - weight, "-canary": weight} {
			backend := model.Backend{
				Service: model.Key{Namespace: "apps", Name: name + service}, Port: 80,
				Weight: share, Protocol: model.HTTP1,
			}
			route.Backends = append(route.Backends, backend)
			config.Services[backend.ServicePort()] = ready("10.1.0.1")
		}
		if route.Backends[0].Service.Name != name+"-stable" {
			route.Backends[0], route.Backends[1] = route.Backends[1], route.Backends[0]
		}
		config.Routes = append(config.Routes, route)
	}
	return config
}
