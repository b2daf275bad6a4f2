// Package controlplane assembles the components of the interceptor, which do not import each other. It passes resources
// and fleets from package ingest to the discovery server and the metric sink, objects to the sink and to the queue of
// requests, and the state of discovery streams to package status. It contains adapters only, no decisions.
package controlplane

import (
	"net/netip"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/claims"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/fault"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Publisher is an ingest.Publisher that publishes to a discovery server.
type Publisher struct {
	// Server delivers the resources.
	Server *xds.Server
	// Sink receives the proxies of fleets; nil for none.
	Sink *sink.Sink
	// Checks receives the proxies of fleets, too; nil for none.
	Checks *extauthz.Server
}

// Publish implements ingest.Publisher.
func (p Publisher) Publish(fleet model.Fleet, update translate.Update, isWhole bool) error {
	if isWhole {
		return p.Server.Publish(string(fleet), update.Changed)
	}
	if fault.BriefWrongWeight { // Only in a mutant.
		update = publishWrongWeights(p.Server, fleet, update)
	}
	return p.Server.ApplyDelta(xds.Delta{
		Fleet: string(fleet), Changed: update.Changed, Removed: update.Removed,
	})
}

// Retire implements ingest.Publisher.
func (p Publisher) Retire(fleet model.Fleet) { p.Server.Retire(string(fleet)) }

// Assign implements ingest.Publisher.
func (p Publisher) Assign(proxies map[model.Fleet][]model.Proxy) {
	p.Server.SetMembers(membersOf(proxies))
	if p.Sink != nil {
		p.Sink.SetProxies(proxies)
	}
	if p.Checks != nil {
		p.Checks.SetProxies(proxies)
	}
}

// ClaimedPublisher is a Publisher that assigns the addresses of several fleets to the one that they belong to.
type ClaimedPublisher struct {
	Publisher

	// Claims decides. Its Options.Assign is that of the Publisher.
	Claims *claims.Resolver
}

// Assign implements ingest.Publisher.
func (p ClaimedPublisher) Assign(proxies map[model.Fleet][]model.Proxy) { p.Claims.Assign(proxies) }

// membersOf returns the addresses of proxies. An address is draining when all proxies of a fleet that have it serve but
// are no longer ready.
func membersOf(proxies map[model.Fleet][]model.Proxy) xds.Members {
	members := xds.Members{
		Fleets: map[netip.Addr][]string{}, Strict: map[string]bool{}, Topologies: map[xds.Member]session.Topology{},
	}
	isDraining := map[xds.Member]bool{}
	for fleet, fleetProxies := range proxies {
		for _, proxy := range fleetProxies {
			addMember(&members, string(fleet), proxy)
			if proxy.NeedsToken {
				members.Strict[string(fleet)] = true
			}
			for _, address := range proxy.Addresses {
				member := xds.Member{Fleet: string(fleet), Address: address}
				others, isKnown := isDraining[member]
				isDraining[member] = (others || !isKnown) && proxy.IsServing && !proxy.IsReady
			}
		}
	}
	for member, all := range isDraining {
		if all {
			members.Draining = append(members.Draining, member)
		}
	}
	return members
}

// addMember adds the addresses of a proxy, with its fleet, IP families and topology.
func addMember(members *xds.Members, fleet string, proxy model.Proxy) {
	hasIPv6 := slices.ContainsFunc(proxy.Addresses, netip.Addr.Is6)
	topology := session.Topology{Zone: proxy.Zone, Node: proxy.Node}
	for _, address := range proxy.Addresses {
		member := xds.Member{Fleet: fleet, Address: address}
		if hasIPv6 {
			members.WithIPv6 = append(members.WithIPv6, member)
		}
		if topology != (session.Topology{}) {
			members.Topologies[member] = topology
		}
		if !slices.Contains(members.Fleets[address], fleet) {
			members.Fleets[address] = append(members.Fleets[address], fleet)
		}
	}
}

// ProxyStates is a status.Source of the discovery streams of a server.
type ProxyStates struct {
	// Server has the streams.
	Server *xds.Server
}

// Poll implements status.Source.
func (p ProxyStates) Poll() []status.Stream {
	var streams []status.Stream
	p.Server.Poll(func(state xds.StreamState) { streams = append(streams, stream{state}) })
	return streams
}

// Versions implements status.Source.
func (p ProxyStates) Versions() status.Versions {
	versions := p.Server.Versions()
	return func(fleet model.Fleet, typeURL, name string) string { return versions(string(fleet), typeURL, name) }
}

// Changed implements status.Source.
func (p ProxyStates) Changed() <-chan struct{} { return p.Server.Changed() }

// stream is a discovery stream as a status.Stream.
type stream struct{ xds.StreamState }

// Fleet implements status.Stream.
func (s stream) Fleet() model.Fleet { return model.Fleet(s.StreamState.Fleet()) }

// ResourceAck implements status.Stream.
func (s stream) ResourceAck(typeURL, name string) status.ResourceAck {
	return status.ResourceAck(s.Resource(typeURL, name))
}
