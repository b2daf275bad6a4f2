package translate

import (
	"fmt"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherxdsv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	inspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	sniv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_mappers/sni/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_selectors/on_demand_secret/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// A host's certificate is a resource too, which Envoy asks for when a client begins a handshake, by the name that the
// client sends (SNI). So nothing of a tenant is in this listener either, and a certificate comes, changes and
// goes without a connection being drained.
//
//   - What is no host name never becomes the name of a resource. Envoy 1.40 ends at once when a client sends
//     one that begins with "xdstp:" and is no address, and one that is not UTF-8 would break the stream of its configuration.
//     So the name is read ahead of the handshake (TLS inspector), and a connection with an improper one is closed.
//   - A name without a certificate is answered by the interceptor, and the handshake refused: there is no
//     certificate for all.
//   - A client that names no host, as many an Ingress controller does with its backends, gets the certificate that is published
//     for ir.Nameless.
//   - A handshake that waits for an answer that doesn't come ends after handshakeTimeout.
//   - Sessions can't be resumed: Envoy refuses that together with certificates on demand.
const (
	// TLSListenerName is the name of the listener for TLS.
	TLSListenerName = "kedify-proxy-tls"
	// TLSPort is where it accepts HTTP/1.1 and HTTP/2 over TLS, by ALPN.
	TLSPort = 8443
	// tlsChain is the name of its filter chain, and noChain that of the one without filters, which closes connections.
	tlsChain, noChain = "tls", "none"
	// hostName matches what ir.ParseHost takes, in lower case, and a trailing dot.
	hostName = `[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?`
	// anyName matches all that a client may send in the place of a name, be it no UTF-8, and not that it sends nothing.
	anyName = `(?s)\C+`
	// handshakeTimeout bounds a handshake, together with the question for the certificate.
	handshakeTimeout = 10 * time.Second
)

// addTLS adds the listener for TLS.
func (o Options) addTLS(out Update) error {
	if !o.TLS {
		return nil
	}
	listener, err := o.tlsListener()
	if err != nil {
		return fmt.Errorf("listener %s: %w", TLSListenerName, err)
	}
	out.Changed[resourcev3.ListenerType][TLSListenerName] = listener
	return nil
}

// tlsListener does behind TLS what the first listener does.
func (o Options) tlsListener() (*listenerv3.Listener, error) {
	listener, err := o.listener()
	if err != nil {
		return nil, err
	}
	listener.Name = TLSListenerName
	listener.GetAddress().GetSocketAddress().PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: TLSPort}
	inspector, err := pack(&inspectorv3.TlsInspector{})
	if err != nil {
		return nil, err
	}
	listener.ListenerFilters = []*listenerv3.ListenerFilter{{
		Name:       "envoy.filters.listener.tls_inspector",
		ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: inspector},
	}}
	if listener.FilterChainMatcher, err = byHostName(); err != nil {
		return nil, err
	}
	context, err := downstreamTLS()
	if err != nil {
		return nil, err
	}
	chain := listener.GetFilterChains()[0]
	chain.Name = tlsChain
	chain.TransportSocketConnectTimeout = durationpb.New(handshakeTimeout)
	chain.TransportSocket = context
	listener.FilterChains = append(listener.FilterChains, &listenerv3.FilterChain{Name: noChain})
	return listener, validate(listener)
}

// byHostName leads to tlsChain whoever sends a host name or nothing, and to noChain who sends something else.
func byHostName() (*matcherxdsv3.Matcher, error) {
	proper, err := byName(hostName, tlsChain)
	if err != nil {
		return nil, err
	}
	improper, err := byName(anyName, noChain)
	if err != nil {
		return nil, err
	}
	nothing, err := toChain(tlsChain)
	if err != nil {
		return nil, err
	}
	return &matcherxdsv3.Matcher{
		MatcherType: &matcherxdsv3.Matcher_MatcherList_{MatcherList: &matcherxdsv3.Matcher_MatcherList{
			Matchers: []*matcherxdsv3.Matcher_MatcherList_FieldMatcher{proper, improper},
		}},
		OnNoMatch: nothing,
	}, nil
}

// byName leads to a filter chain who sends a name that a regular expression (RE2) matches.
func byName(expression, chain string) (*matcherxdsv3.Matcher_MatcherList_FieldMatcher, error) {
	input, err := pack(&inputsv3.ServerNameInput{})
	if err != nil {
		return nil, err
	}
	to, err := toChain(chain)
	if err != nil {
		return nil, err
	}
	predicate := &matcherxdsv3.Matcher_MatcherList_Predicate_SinglePredicate{
		Input: &xdscorev3.TypedExtensionConfig{Name: "sni", TypedConfig: input},
		Matcher: &matcherxdsv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: &matcherxdsv3.StringMatcher{
			MatchPattern: &matcherxdsv3.StringMatcher_SafeRegex{SafeRegex: &matcherxdsv3.RegexMatcher{
				EngineType: &matcherxdsv3.RegexMatcher_GoogleRe2{GoogleRe2: &matcherxdsv3.RegexMatcher_GoogleRE2{}},
				Regex:      expression,
			}},
		}},
	}
	return &matcherxdsv3.Matcher_MatcherList_FieldMatcher{
		Predicate: &matcherxdsv3.Matcher_MatcherList_Predicate{
			MatchType: &matcherxdsv3.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: predicate},
		},
		OnMatch: to,
	}, nil
}

// toChain leads to a filter chain.
func toChain(name string) (*matcherxdsv3.Matcher_OnMatch, error) {
	chain, err := pack(wrapperspb.String(name))
	if err != nil {
		return nil, err
	}
	return &matcherxdsv3.Matcher_OnMatch{OnMatch: &matcherxdsv3.Matcher_OnMatch_Action{
		Action: &xdscorev3.TypedExtensionConfig{Name: "chain", TypedConfig: chain},
	}}, nil
}

// downstreamTLS has certificates come by name. Versions and ciphers are Envoy's: TLS 1.2 and 1.3.
func downstreamTLS() (*corev3.TransportSocket, error) {
	mapper, err := pack(&sniv3.SNI{DefaultValue: string(model.NoServerName)})
	if err != nil {
		return nil, err
	}
	selector, err := pack(&ondemandv3.Config{
		ConfigSource:      aggregated(0),
		CertificateMapper: &corev3.TypedExtensionConfig{Name: "sni", TypedConfig: mapper},
	})
	if err != nil {
		return nil, err
	}
	context, err := pack(&tlsv3.DownstreamTlsContext{
		CommonTlsContext: &tlsv3.CommonTlsContext{
			AlpnProtocols:                []string{"h2", "http/1.1"},
			CustomTlsCertificateSelector: &corev3.TypedExtensionConfig{Name: "on-demand", TypedConfig: selector},
		},
		DisableStatefulSessionResumption: true,
		SessionTicketKeysType: &tlsv3.DownstreamTlsContext_DisableStatelessSessionResumption{
			DisableStatelessSessionResumption: true,
		},
	})
	if err != nil {
		return nil, err
	}
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: context},
	}, nil
}

// translateCertificates makes the secrets of hosts, which have the names of the hosts.
func (t *Translator) translateCertificates(certificates map[model.Host]*model.Certificate, out Update) error {
	if !t.options.TLS {
		return nil
	}
	for host, certificate := range certificates {
		if certificate == nil {
			if _, had := t.certified[host]; had {
				delete(t.certified, host)
				out.Removed[resourcev3.SecretType] = append(out.Removed[resourcev3.SecretType], string(host))
			}
			continue
		}
		secret := secretOf(host, certificate)
		if err := validate(secret); err != nil {
			return fmt.Errorf("secret %s: %w", host, err)
		}
		t.certified[host] = struct{}{}
		out.reserve(resourcev3.SecretType, len(certificates))
		out.Changed[resourcev3.SecretType][string(host)] = secret
	}
	return nil
}

// secretOf is the certificate of a host, with its key.
func secretOf(host model.Host, certificate *model.Certificate) *tlsv3.Secret {
	return &tlsv3.Secret{
		Name: string(host),
		Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineBytes{InlineBytes: certificate.Chain},
			},
			PrivateKey: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineBytes{InlineBytes: certificate.PrivateKey()},
			},
		}},
	}
}
