package xds

import (
	"maps"
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// Certificates are published under hosts, of which some are wildcards, and asked for by whatever name a client
// sends in its handshake (SNI). So a name has its certificate from the most specific host that it fits, under the
// name that was asked for.

// guessesLimit is how many names a stream has at a time that are not hosts themselves. Envoy 1.40 keeps the
// certificate of each name for good that it ever found one for: a client that makes up names below a wildcard
// would fill its memory.
const guessesLimit = 1000

// find returns the resource of a name, nil for none. That of a certificate has the name that was asked for.
func (s *snapshot) find(k kind, name string) *resource {
	if k != secretKind {
		return s.resources[k].get(name)
	}
	for _, host := range hostsFor(name) {
		if found := s.resources[secretKind].get(host); found != nil {
			return found.named(name)
		}
		if s.resources[scopeKind].get(host) != nil {
			return nil // A known host never falls through to a wildcard.
		}
	}
	return nil
}

// named is a certificate under another name, with the same version.
func (r *resource) named(name string) *resource {
	if name == r.name {
		return r
	}
	other := *r
	other.name = name
	return &other
}

// hostsFor lists the hosts that a name fits, the most specific first: itself, the wildcards above it, and the one
// of all. Letter case and one trailing dot don't count, as in the Host of a request.
func hostsFor(name string) []string {
	host := strings.ToLower(strings.TrimSuffix(name, "."))
	hosts := []string{host}
	for i := range len(host) {
		if host[i] == '.' && i > 0 {
			hosts = append(hosts, "*"+host[i:])
		}
	}
	return append(hosts, "*")
}

// certificatesChanged lists the certificates of which a snapshot says something else than the one before, by the
// names under which the stream knows them: when a certificate is new, or when a host came that has none.
func (s *session) certificatesChanged(changes []change, w *snapshot) []change {
	names := s.subs[secretKind].names
	if len(names) == 0 || !s.concernCertificates(changes, w) {
		return nil
	}
	var changed []change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if s.snapshot.version(secretKind, name) != w.version(secretKind, name) {
			changed = append(changed, change{secretKind, name})
		}
	}
	return changed
}

// concernCertificates tells whether a name may have another certificate than before.
func (s *session) concernCertificates(changes []change, w *snapshot) bool {
	for _, c := range changes {
		switch c.kind {
		case secretKind:
			return true
		case scopeKind:
			if (s.snapshot.find(scopeKind, c.name) == nil) != (w.find(scopeKind, c.name) == nil) {
				return true
			}
		default:
		}
	}
	return false
}

// guesses are the names of certificates on a stream that are no hosts: other spellings, and what is below a
// wildcard. Of too many the oldest is taken back, and comes again when a client sends it again.
type guesses struct {
	known   queue
	refused map[string]struct{}
}

// isRefused tells whether a name was taken back.
func (g *guesses) isRefused(name string) bool {
	_, is := g.refused[name]
	return is
}

// forget takes note that the proxy asks for a name no more.
func (g *guesses) forget(name string) {
	g.known.remove(name)
	delete(g.refused, name)
}

// guess takes note of a name that the proxy asks for, and takes the oldest one back when there are too many.
func (s *session) guess(name string) {
	s.guesses.forget(name)
	if found := s.desired(secretKind, name); found == nil || s.snapshot.resources[secretKind].get(name) != nil {
		return
	}
	s.guesses.known.add(name)
	for s.guesses.known.count() > guessesLimit {
		oldest, _ := s.guesses.known.pop()
		s.find(secretKind, oldest) // What is refused has to have a record.
		if s.guesses.refused == nil {
			s.guesses.refused = map[string]struct{}{}
		}
		s.guesses.refused[oldest] = struct{}{}
		s.subs[secretKind].dirty.add(oldest)
	}
}

// isOnDemand tells whether a listener asks for certificates by the names that clients send.
func isOnDemand(listener *listenerv3.Listener) bool {
	for _, chain := range listener.GetFilterChains() {
		context := new(tlsv3.DownstreamTlsContext)
		config := chain.GetTransportSocket().GetTypedConfig()
		if config.MessageIs(context) && config.UnmarshalTo(context) == nil &&
			context.GetCommonTlsContext().GetCustomTlsCertificateSelector() != nil {
			return true
		}
	}
	return false
}
