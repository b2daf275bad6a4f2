// Package controlplane joins the parts of the interceptor that know nothing of each other: what the
// watches lead to goes to the discovery server, to the reporting and to the metric sink, and what the
// discovery server knows of proxies goes to the reporting. It decides nothing.
package controlplane

import (
	"net/netip"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/fault"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Publisher hands resources on to a discovery server, which knows them as plain messages. It is an
// ingest.Publisher.
type Publisher struct {
	// Server takes the resources.
	Server *xds.Server
	// Sink is told of proxies; nil for none.
	Sink *sink.Sink
}

// Publish is ingest.Publisher's.
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

// Retire is ingest.Publisher's.
func (p Publisher) Retire(fleet model.Fleet) { p.Server.Retire(string(fleet)) }

// Assign is ingest.Publisher's.
func (p Publisher) Assign(proxies map[model.Fleet][]model.Proxy) {
	members, leaves := map[netip.Addr][]string{}, map[netip.Addr]bool{}
	for fleet, own := range proxies {
		for _, proxy := range own {
			for _, address := range proxy.Addresses {
				others, isKnown := leaves[address]
				leaves[address] = (others || !isKnown) && proxy.IsServing && !proxy.IsReady
				if !slices.Contains(members[address], string(fleet)) {
					members[address] = append(members[address], string(fleet))
				}
			}
		}
	}
	var leaving []netip.Addr
	for address, all := range leaves {
		if all {
			leaving = append(leaving, address)
		}
	}
	p.Server.SetMembers(members, leaving...)
	if p.Sink != nil {
		p.Sink.SetProxies(proxies)
	}
}

// Demand tells a metric sink of objects. It is an observation.Observer.
type Demand struct {
	// Sink is told.
	Sink *sink.Sink
}

// Observe is observation.Observer's.
func (d Demand) Observe(pass observation.Pass) {
	if len(pass.Objects) > 0 {
		d.Sink.SetObjects(measured(pass.Objects))
	}
}

// measured says what there is to know of objects for the demand for them; nil for one that is gone.
func measured(objects map[model.Key]observation.Object) map[model.Key]*metrics.Object {
	out := make(map[model.Key]*metrics.Object, len(objects))
	for key, object := range objects {
		if object.ScaledObject == nil {
			out[key] = nil
			continue
		}
		spec, err := metrics.SpecOf(object.ScaledObject)
		measured := &metrics.Object{Fleet: object.Fleet, Spec: spec, Created: object.ScaledObject.CreationTimestamp.Time}
		if err != nil {
			measured.SpecError = err.Error()
		}
		for _, route := range object.InForce.Routes {
			for _, backend := range route.Backends {
				if !slices.Contains(measured.Services, backend.Service.Name) {
					measured.Services = append(measured.Services, backend.Service.Name)
				}
			}
		}
		out[key] = measured
	}
	return out
}

// ProxyStates are what a discovery server knows of its proxies. They are a status.Source.
type ProxyStates struct {
	// Server is asked.
	Server *xds.Server
}

// Poll is status.Source's.
func (p ProxyStates) Poll() []status.Stream {
	var streams []status.Stream
	p.Server.Poll(func(stream xds.StreamState) {
		streams = append(streams, status.Stream{
			Number:  stream.Number(),
			Address: stream.Address(),
			Fleet:   model.Fleet(stream.Fleet()),
			Changed: stream.Changed,
			Confirmed: func(typeURL, name string) status.Confirmation {
				return status.Confirmation(stream.Resource(typeURL, name))
			},
		})
	})
	return streams
}

// Versions is status.Source's.
func (p ProxyStates) Versions() status.Versions {
	versions := p.Server.Versions()
	return func(fleet model.Fleet, typeURL, name string) string { return versions(string(fleet), typeURL, name) }
}

// Changed is status.Source's.
func (p ProxyStates) Changed() <-chan struct{} { return p.Server.Changed() }
