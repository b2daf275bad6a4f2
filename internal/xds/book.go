package xds

import (
	"cmp"
	"iter"
	"maps"
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
		for name := range s.subs[k].records {
			reports[name] = s.reportOne(k, name, published)
		}
		out[k.typeURL()] = reports
	}
	return out
}

// reportOne copies what the session knows of one resource.
func (s *session) reportOne(k kind, name string, published *world) ResourceReport {
	rec := s.subs[k].records[name]
	if rec == nil {
		return ResourceReport{}
	}
	report := rec.report()
	if k == routeKind && published != nil {
		report.Unconfirmed = rec.unconfirmed(published.resources[k][name])
	}
	return report
}

// unconfirmed names the virtual hosts of a route configuration, which is published
// as want, or not at all, that the proxy isn't known to have.
func (rec *record) unconfirmed(want *resource) []string {
	if want == nil || rec.acked != nil && rec.acked.version == want.version {
		return nil
	}
	var names []string
	has := rec.acked.parts()
	for _, p := range want.table.news(has) {
		if old := has.host(p.name); p != want.table.frame && (old == nil || old.version != p.version) {
			names = append(names, p.name)
		}
	}
	return names
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
	published := s.current().world
	var reports []StreamReport
	for _, st := range s.listed() {
		reports = append(reports, st.report(kinds, published))
	}
	return reports
}

// Changed signals that the book may have changed since the channel was last read:
// a proxy came, went, or sent a request, which an ACK or NACK is. Signals are
// merged, and there is one channel for one reader.
func (s *Server) Changed() <-chan struct{} { return s.changed }

// View shows one open stream, which stands still while it is looked at.
type View struct {
	stream    *stream
	published *world
	news      [kindCount]map[string]struct{}
}

// Look shows every open stream to see, in order of their numbers, and forgets what
// is new on them. So there is one who looks. A look costs what is new, whatever
// else the proxies have. A View is good until see returns, which should be soon: the
// proxy waits meanwhile.
func (s *Server) Look(see func(View)) {
	published := s.current().world
	for _, st := range s.listed() {
		st.look(published, see)
	}
}

// listed are the open streams in order of their numbers.
func (s *Server) listed() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.streams), func(a, b *stream) int { return cmp.Compare(a.number, b.number) })
}

// look shows the stream.
func (st *stream) look(published *world, see func(View)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	v := View{stream: st, published: published}
	for k := range kind(kindCount) {
		v.news[k] = st.session.subs[k].news
		st.session.subs[k].news = map[string]struct{}{}
	}
	see(v)
}

// Stream is the number of the stream, see [StreamReport].
func (v View) Stream() uint64 { return v.stream.number }

// Peer is the proxy's address, see [StreamReport].
func (v View) Peer() string { return v.stream.peer }

// News visits the names of the resources of a type of which the report may say
// something else than in the View before, in no order. All others are as they were,
// but for Unconfirmed, which depends on what is published too.
func (v View) News(typeURL string) iter.Seq[string] {
	k, served := kindOf(typeURL)
	if !served {
		return maps.Keys(map[string]struct{}(nil))
	}
	return maps.Keys(v.news[k])
}

// Report is what the proxy was sent of one resource and has answered, the zero value
// if it knows nothing of it.
func (v View) Report(typeURL, name string) ResourceReport {
	k, served := kindOf(typeURL)
	if !served {
		return ResourceReport{}
	}
	return v.stream.session.reportOne(k, name, v.published)
}

// Refused is what the proxy refused on its own merits, see [StreamReport].
func (v View) Refused() []Refusal {
	var refused []Refusal
	for k := range kind(kindCount) {
		refused = append(refused, v.stream.session.refusals(k, v.published)...)
	}
	return refused
}

// Version returns the version of a published resource; empty when there is none.
func (s *Server) Version(typeURL, name string) string {
	k, served := kindOf(typeURL)
	current := s.current().world
	if !served || current == nil || current.resources[k][name] == nil {
		return ""
	}
	return current.resources[k][name].version
}

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
