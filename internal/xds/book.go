package xds

import (
	"cmp"
	"slices"
	"time"
)

// StreamReport is what one connected proxy was sent and has answered.
type StreamReport struct {
	// Stream numbers the stream. Numbers rise and are never used again in this
	// process; they mean nothing outside it.
	Stream uint64
	// Peer is the proxy's address, host:port. Every proxy gives the same node id,
	// so this is what tells them apart.
	Peer string
	// Node is the node id of the proxy's bootstrap; empty before its first request.
	Node string
	// Mode is the form of the protocol that the proxy speaks.
	Mode Mode
	// Connected is when the stream began.
	Connected time.Time
	// Resources are the reports by type URL and resource name.
	Resources map[string]map[string]ResourceReport
	// Refused is what this proxy refused on its own merits, in order of type,
	// resource and virtual host. It is held back until its content changes, and
	// everything else goes on.
	Refused []Refusal
}

// Refusal is a resource or a virtual host that a proxy refused when nothing else
// was new in the response.
type Refusal struct {
	// TypeURL and Resource name the resource.
	TypeURL, Resource string
	// VirtualHost names the virtual host, of a route configuration. It is empty if
	// the refusal is about a resource of another type, or about what a route
	// configuration has beside its virtual hosts.
	VirtualHost string
	// Message is the proxy's reason.
	Message string
	// Retained is true when the proxy goes on with an older version; otherwise it
	// has none.
	Retained bool
}

// ResourceReport is the state of one resource on one stream. Versions are those
// of [Server.Versions]; empty means none.
type ResourceReport struct {
	// Sent is the version that was sent last; empty when none was, or when the
	// last was its removal.
	Sent string
	// Acked is the version that the proxy last confirmed; empty when it never did
	// or when a NACK took that back. A later version may be under way: only with
	// InSync is Acked what the proxy runs for certain.
	Acked string
	// InSync is true when the proxy confirmed the last thing that it was sent.
	InSync bool
	// Nacked is a version that travelled in a response that the proxy refused and
	// of which no later ACK is known. It need not be the culprit.
	Nacked string
	// NackMessage is the proxy's reason for the refusal.
	NackMessage string
	// Unconfirmed are the names of the virtual hosts, of a route configuration, that
	// the proxy isn't known to have as they are published: not yet, or because they
	// are held back. All others it has confirmed. In order; empty when it confirmed
	// all.
	Unconfirmed []string
}

// report copies what the session knows of the given kinds. published is the latest
// world, of which the session need not have heard yet; nil before the first.
func (s *session) report(kinds []kind, published *world) map[string]map[string]ResourceReport {
	out := make(map[string]map[string]ResourceReport, len(kinds))
	for _, k := range kinds {
		reports := make(map[string]ResourceReport, len(s.subs[k].records))
		for name, rec := range s.subs[k].records {
			reports[name] = rec.report()
			if k == routeKind && published != nil {
				s.reportHosts(reports, name, published.resources[k][name])
			}
		}
		out[k.typeURL()] = reports
	}
	return out
}

// reportHosts completes the report of a route configuration, which is published as
// want, or not at all.
func (s *session) reportHosts(reports map[string]ResourceReport, name string, want *resource) {
	report := reports[name]
	if want == nil || report.Acked == want.version {
		return
	}
	has := s.subs[routeKind].records[name].acked.parts()
	for _, host := range want.table.hosts {
		if old := has.host(host.name); old == nil || old.version != host.version {
			report.Unconfirmed = append(report.Unconfirmed, host.name)
		}
	}
	reports[name] = report
}

// report copies what is known of one resource.
func (rec *record) report() ResourceReport {
	out := ResourceReport{InSync: rec.inSync()}
	if rec.sent != nil {
		out.Sent = rec.sent.version
	}
	if rec.acked != nil {
		out.Acked = rec.acked.version
	}
	if rec.refusal != nil {
		out.Nacked, out.NackMessage = rec.refusal.version, rec.refusal.message
	}
	return out
}

// Book returns a report of every open stream, in order of their numbers. With
// type URLs only those types are reported, which is cheaper. The result is the
// caller's own.
func (s *Server) Book(typeURLs ...string) []StreamReport {
	var kinds []kind
	for k := range kind(kindCount) {
		if len(typeURLs) == 0 || slices.Contains(typeURLs, k.typeURL()) {
			kinds = append(kinds, k)
		}
	}
	s.mu.Lock()
	open := make([]*stream, 0, len(s.streams))
	for st := range s.streams {
		open = append(open, st)
	}
	s.mu.Unlock()
	slices.SortFunc(open, func(a, b *stream) int { return cmp.Compare(a.number, b.number) })
	published := s.current().world
	reports := make([]StreamReport, 0, len(open))
	for _, st := range open {
		reports = append(reports, st.report(kinds, published))
	}
	return reports
}

// Changed signals that the book may have changed since the channel was last read:
// a proxy came, went, or sent a request, which an ACK or NACK is. Signals are
// merged, and there is one channel for one reader.
func (s *Server) Changed() <-chan struct{} { return s.changed }

// Versions returns the versions of the published resources of a type by name;
// empty before the first Publish and for a type that isn't served.
func (s *Server) Versions(typeURL string) map[string]string {
	k, served := kindOf(typeURL)
	current := s.current().world
	if !served || current == nil {
		return map[string]string{}
	}
	versions := make(map[string]string, len(current.resources[k]))
	for name, res := range current.resources[k] {
		versions[name] = res.version
	}
	return versions
}
