// Package wiring joins the parts of the interceptor that know nothing of each other: what the
// watches lead to goes to the discovery server, to the reporting and to the metric sink, and what the
// discovery server knows of proxies goes to the reporting. It decides nothing.
package wiring

import (
	"net/netip"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/demand"
	"github.com/kedify/argo-rollouts-plugin/internal/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/metricsink"
	"github.com/kedify/argo-rollouts-plugin/internal/status"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/xds"
)

// Publisher hands resources on to a discovery server, which knows them as plain messages. It is an
// ingest.Publisher.
type Publisher struct {
	// Server takes the resources.
	Server *xds.Server
	// Sink is told of proxies; nil for none.
	Sink *metricsink.Sink
}

// Publish is ingest.Publisher's.
func (p Publisher) Publish(fleet ir.Fleet, resources translate.Resources) error {
	return p.Server.Publish(string(fleet), resources)
}

// Amend is ingest.Publisher's.
func (p Publisher) Amend(fleet ir.Fleet, update translate.Update) error {
	return p.Server.ApplyDelta(xds.Delta{
		Fleet: string(fleet), Changed: update.Changed, Removed: update.Removed,
	})
}

// Retire is ingest.Publisher's.
func (p Publisher) Retire(fleet ir.Fleet) { p.Server.Retire(string(fleet)) }

// Assign is ingest.Publisher's.
func (p Publisher) Assign(proxies map[ir.Fleet][]ir.Proxy) {
	members := map[netip.Addr][]string{}
	for fleet, own := range proxies {
		for _, proxy := range own {
			for _, address := range proxy.Addresses {
				if !slices.Contains(members[address], string(fleet)) {
					members[address] = append(members[address], string(fleet))
				}
			}
		}
	}
	p.Server.SetMembers(members)
	if p.Sink != nil {
		p.Sink.SetProxies(proxies)
	}
}

// Reporter hands the outcome of passes on to a Reporting. It is an ingest.Reporter.
type Reporter struct {
	// Reporting takes the outcome.
	Reporting *status.Reporting
	// Sink is told of objects; nil for none.
	Sink *metricsink.Sink
	// Holding is told of objects; nil for none.
	Holding *Holding
}

// Report is ingest.Reporter's.
func (r Reporter) Report(pass ingest.Pass) {
	objects := make(map[ir.Key]status.Object, len(pass.Objects))
	for key, object := range pass.Objects {
		objects[key] = status.Object{
			ScaledObject: object.ScaledObject, Fleet: object.Fleet,
			Observation: status.Observation(object.Outcome), InForce: object.InForce,
		}
	}
	r.Reporting.Report(status.Report{Objects: objects, Proxies: pass.Proxies, Replicas: pass.Replicas})
	if r.Sink != nil && len(pass.Objects) > 0 {
		r.Sink.SetObjects(measured(pass.Objects))
	}
	if r.Holding != nil {
		r.Holding.SetObjects(pass.Objects)
	}
}

// measured says what there is to know of objects for the demand for them; nil for one that is gone.
func measured(objects map[ir.Key]ingest.Object) map[ir.Key]*demand.Object {
	out := make(map[ir.Key]*demand.Object, len(objects))
	for key, object := range objects {
		if object.ScaledObject == nil {
			out[key] = nil
			continue
		}
		spec, err := demand.SpecOf(object.ScaledObject)
		measured := &demand.Object{Fleet: object.Fleet, Spec: spec, Created: object.ScaledObject.CreationTimestamp.Time}
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
			Peer:    stream.Peer(),
			Fleet:   ir.Fleet(stream.Fleet()),
			Changed: stream.Changed,
			Confirmed: func(typeURL, name string) status.Confirmation {
				found := stream.Resource(typeURL, name)
				return status.Confirmation{
					Acked: found.Acked, InSync: found.InSync, Nacked: found.Nacked, Message: found.NackMessage,
				}
			},
		})
	})
	return streams
}

// Versions is status.Source's.
func (p ProxyStates) Versions() status.Versions {
	versions := p.Server.Versions()
	return func(resource status.Resource) string {
		return versions(string(resource.Fleet), resource.TypeURL, resource.Name)
	}
}

// Changed is status.Source's.
func (p ProxyStates) Changed() <-chan struct{} { return p.Server.Changed() }
