// Package wiring joins the parts of the interceptor that know nothing of each other: what the watches lead to goes to the discovery server and to the
// reporting, and what the discovery server knows of proxies goes to the reporting. It decides nothing.
package wiring

import (
	"github.com/kedify/argo-rollouts-plugin/internal/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/status"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/xds"
)

// Publisher hands resources on to a discovery server, which knows them as plain messages. It is an ingest.Publisher.
type Publisher struct {
	// Server takes the resources.
	Server *xds.Server
}

// Publish is ingest.Publisher's.
func (p Publisher) Publish(resources translate.Resources) error { return p.Server.Publish(resources) }

// Amend is ingest.Publisher's.
func (p Publisher) Amend(update translate.Update) error {
	return p.Server.Amend(xds.Difference{Changed: update.Changed, Removed: update.Removed})
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

// Book is what a discovery server knows of its proxies. It is a status.Source.
type Book struct {
	// Server is asked.
	Server *xds.Server
}

// Look is status.Source's.
func (b Book) Look(see func(status.Stream)) {
	b.Server.Look(func(view xds.View) {
		see(status.Stream{
			Number:    view.Stream(),
			Peer:      view.Peer(),
			News:      view.News,
			Confirmed: func(typeURL, name string) status.Confirmation { return confirmation(view.Report(typeURL, name)) },
			Refused:   culprits(view.Refused()),
		})
	})
}

// Version is status.Source's.
func (b Book) Version(typeURL, name string) string { return b.Server.Version(typeURL, name) }

// Changed is status.Source's.
func (b Book) Changed() <-chan struct{} { return b.Server.Changed() }

// confirmation says in status's words what a proxy has answered. Unconfirmed is never nil: the server always knows what a proxy misses.
func confirmation(found xds.ResourceReport) status.Confirmation {
	unconfirmed := found.Unconfirmed
	if unconfirmed == nil {
		unconfirmed = []string{}
	}
	return status.Confirmation{
		Acked: found.Acked, InSync: found.InSync, Nacked: found.Nacked, Message: found.NackMessage, Unconfirmed: unconfirmed,
	}
}

// culprits says in status's words what a proxy refuses.
func culprits(refusals []xds.Refusal) []status.Culprit {
	var out []status.Culprit
	for _, refusal := range refusals {
		out = append(out, status.Culprit{TypeURL: refusal.TypeURL, Name: refusal.Resource, Host: refusal.VirtualHost, Message: refusal.Message})
	}
	return out
}
