package session

import (
	"maps"
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// Certificates are published by host, which may be a wildcard, and requested by the server name that a client sends in
// its handshake (SNI). A server name is resolved to the certificate of the most specific matching host. The response
// has the requested name.

// serverNamesLimit is how many server names that are not hosts a stream has at a time. Envoy 1.40 never discards the
// certificate of a name for which it found one: a client that invents names below a wildcard would fill its memory.
const serverNamesLimit = 1000

// lookup returns the resource of a name, nil for none. A certificate is returned with the requested name.
func (s *Snapshot) lookup(k Kind, name string) *Resource {
	if k != SecretKind {
		return s.resources[k].get(name)
	}
	for _, host := range hostsFor(name) {
		if certificate := s.resources[SecretKind].get(host); certificate != nil {
			return certificate.withName(name)
		}
		if s.resources[ScopeKind].get(host) != nil {
			return nil // A known host never falls through to a wildcard.
		}
	}
	return nil
}

// withName returns a certificate with another name and the same version.
func (r *Resource) withName(name string) *Resource {
	if name == r.name {
		return r
	}
	other := *r
	other.name = name
	return &other
}

// hostsFor returns the hosts that match a server name, the most specific first: the name itself, the wildcards above
// it, and the wildcard of all hosts. Letter case and one trailing dot are ignored, as in the Host header of a request.
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

// changedCertificates returns the subscribed server names whose certificate differs in the next snapshot. Either a
// certificate changed, or a host without a certificate was added.
func (s *Session) changedCertificates(changes []change, next *Snapshot) []change {
	names := s.subs[SecretKind].names
	if len(names) == 0 || !s.mayChangeCertificates(changes, next) {
		return nil
	}
	var changed []change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if s.snapshot.version(SecretKind, name) != next.version(SecretKind, name) {
			changed = append(changed, change{SecretKind, name})
		}
	}
	return changed
}

// mayChangeCertificates reports whether a server name may have another certificate than before.
func (s *Session) mayChangeCertificates(changes []change, next *Snapshot) bool {
	for _, c := range changes {
		switch c.kind {
		case SecretKind:
			return true
		case ScopeKind:
			if (s.snapshot.lookup(ScopeKind, c.name) == nil) != (next.lookup(ScopeKind, c.name) == nil) {
				return true
			}
		default:
		}
	}
	return false
}

// serverNames are the subscribed names of certificates that are not hosts: other spellings, and names below a wildcard.
// If there are too many, the oldest is evicted: its certificate is removed from the proxy, until a client sends the
// name again.
type serverNames struct {
	active  queue
	evicted map[string]struct{}
}

// isEvicted reports whether a name was evicted.
func (n *serverNames) isEvicted(name string) bool {
	_, isEvicted := n.evicted[name]
	return isEvicted
}

// remove forgets a name that is no longer subscribed.
func (n *serverNames) remove(name string) {
	n.active.remove(name)
	delete(n.evicted, name)
}

// addServerName records that a name of a certificate was subscribed, and evicts the oldest ones if there are too many.
func (s *Session) addServerName(name string) {
	s.serverNames.remove(name)
	if s.desired(SecretKind, name) == nil || s.snapshot.resources[SecretKind].get(name) != nil {
		return
	}
	s.serverNames.active.add(name)
	for s.serverNames.active.count() > serverNamesLimit {
		oldest, _ := s.serverNames.active.pop()
		s.recordOf(SecretKind, oldest) // A removal needs a record.
		if s.serverNames.evicted == nil {
			s.serverNames.evicted = map[string]struct{}{}
		}
		s.serverNames.evicted[oldest] = struct{}{}
		s.subs[SecretKind].dirty.add(oldest)
	}
}

// WithholdSecrets makes the session send no certificates, because they contain private keys and the stream is not
// secure. A proxy keeps the certificates that it had before the stream, without updates, so that it continues to serve
// until another one replaces it. It is called before the first step.
func (s *Session) WithholdSecrets() { s.withholdsSecrets = true }

// isOnDemand reports whether a listener requests certificates by the server names that clients send.
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
