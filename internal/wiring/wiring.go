// Package wiring joins the parts of the interceptor that know nothing of each other: what the
// watches lead to goes to the discovery server and to the reporting, and what the discovery server
// knows of proxies goes to the reporting. It decides nothing.
package wiring

import (
	"github.com/kedify/argo-rollouts-plugin/internal/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/status"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/xds"
)

// Publisher hands resources on to a discovery server, which knows them as plain messages. It is an
// ingest.Publisher.
type Publisher struct {
	// Server takes the resources.
	Server *xds.Server
}

// Publish is ingest.Publisher's.
func (p Publisher) Publish(resources translate.Resources) error { return p.Server.Publish(resources) }

// Amend is ingest.Publisher's.
func (p Publisher) Amend(update translate.Update) error {
	return p.Server.ApplyDelta(xds.Delta{Changed: update.Changed, Removed: update.Removed})
}

// Reporter hands the outcome of passes on to a Reporting. It is an ingest.Reporter.
type Reporter struct {
	// Reporting takes the outcome.
	Reporting *status.Reporting
}

// Report is ingest.Reporter's.
func (r Reporter) Report(pass ingest.Pass) {
	objects := make(map[ir.Key]status.Object, len(pass.Objects))
	for key, object := range pass.Objects {
		objects[key] = status.Object{ScaledObject: object.ScaledObject, Observation: status.Observation(object.Outcome), InForce: object.InForce}
	}
	r.Reporting.Report(status.Report{Objects: objects, Publication: pass.Publication, Proxies: pass.Proxies, Replicas: pass.Replicas})
}

// ProxyStates are what a discovery server knows of its proxies. They are a status.Source.
type ProxyStates struct {
	// Server is asked.
	Server *xds.Server
}

// Poll is status.Source's.
func (p ProxyStates) Poll(see func(status.Stream)) {
	p.Server.Poll(func(stream xds.StreamState) {
		see(status.Stream{
			Number:  stream.Number(),
			Peer:    stream.Peer(),
			Changed: stream.Changed,
			Confirmed: func(typeURL, name string) status.Confirmation {
				return confirmation(stream.Resource(typeURL, name))
			},
			Refused: culprits(stream.Rejections()),
		})
	})
}

// Version is status.Source's.
func (p ProxyStates) Version(typeURL, name string) string { return p.Server.Version(typeURL, name) }

// Changed is status.Source's.
func (p ProxyStates) Changed() <-chan struct{} { return p.Server.Changed() }

// confirmation says in status's words what a proxy has answered.
func confirmation(found xds.ResourceState) status.Confirmation {
	return status.Confirmation{
		Acked: found.Acked, InSync: found.InSync, Nacked: found.Nacked, Message: found.NackMessage,
	}
}

// culprits says in status's words what a proxy refuses.
func culprits(rejections []xds.Rejection) []status.Culprit {
	var out []status.Culprit
	for _, rejection := range rejections {
		out = append(out, status.Culprit{
			Resource: status.PublishedResource{
				TypeURL: rejection.TypeURL, Name: rejection.Resource, Version: rejection.Version,
			},
			Message: rejection.Message,
		})
	}
	return out
}
