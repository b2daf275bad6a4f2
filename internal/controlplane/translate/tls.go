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

// The certificate of a host is a resource too. Envoy requests it when a client starts a handshake, by the server name
// of the client (SNI). The listener therefore contains nothing of a tenant, and certificates change without draining
// connections.
//
//   - An invalid host name never becomes a resource name. Envoy 1.40 crashes if a client sends a name that begins
//     with "xdstp:" and is not a valid URL. A name that is not UTF-8 would break the configuration stream. The TLS
//     inspector therefore reads the name before the handshake, and a connection with an invalid name is closed.
//   - For a name without a certificate the interceptor answers that there is none, and Envoy rejects the handshake:
//     there is no default certificate.
//   - A client without a server name, such as many Ingress controllers, receives the certificate that is published
//     for model.NoServerName.
//   - A handshake without a response for its certificate ends after handshakeTimeout.
//   - Session resumption is disabled, because Envoy rejects it in combination with certificates on demand.
const (
	// TLSListenerName is the name of the TLS listener.
	TLSListenerName = "kedify-proxy-tls"
	// TLSPort is its port for HTTP/1.1 and HTTP/2 over TLS, by ALPN.
	TLSPort = 8443
	// tlsChain is the name of its filter chain, and noChain that of the chain without filters, which closes
	// connections.
	tlsChain, noChain = "tls", "none"
	// hostNamePattern matches what model.ParseHost accepts, in lower case, with an optional trailing dot.
	hostNamePattern = `[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?`
	// anyNamePattern matches any server name, even one that is not UTF-8, but not a missing name.
	anyNamePattern = `(?s)\C+`
	// handshakeTimeout is the timeout of a handshake, including the request for the certificate.
	handshakeTimeout = 10 * time.Second
)

// addTLS adds the TLS listener.
func (o Options) addTLS(out Update) error {
	if !o.TLS {
		return nil
	}
	listener, err := o.tlsListener()
	if err != nil {
		return fmt.Errorf("listener %s: %w", TLSListenerName, err)
	}
	return o.addClientListener(listener, out)
}

// tlsListener returns the TLS listener, which otherwise equals the HTTP listener.
func (o Options) tlsListener() (*listenerv3.Listener, error) {
	listener, err := o.listener()
	if err != nil {
		return nil, err
	}
	listener.Name = TLSListenerName
	listener.Address = listenerAddress(TLSPort)
	inspector, err := pack(&inspectorv3.TlsInspector{})
	if err != nil {
		return nil, err
	}
	listener.ListenerFilters = []*listenerv3.ListenerFilter{{
		Name:       "envoy.filters.listener.tls_inspector",
		ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: inspector},
	}}
	if listener.FilterChainMatcher, err = serverNameMatcher(); err != nil {
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

// serverNameMatcher selects tlsChain for clients with a valid host name or without a name, and noChain for all
// others.
func serverNameMatcher() (*matcherxdsv3.Matcher, error) {
	hostMatcher, err := matchServerName(hostNamePattern, tlsChain)
	if err != nil {
		return nil, err
	}
	invalidMatcher, err := matchServerName(anyNamePattern, noChain)
	if err != nil {
		return nil, err
	}
	withoutName, err := selectChain(tlsChain)
	if err != nil {
		return nil, err
	}
	return &matcherxdsv3.Matcher{
		MatcherType: &matcherxdsv3.Matcher_MatcherList_{MatcherList: &matcherxdsv3.Matcher_MatcherList{
			Matchers: []*matcherxdsv3.Matcher_MatcherList_FieldMatcher{hostMatcher, invalidMatcher},
		}},
		OnNoMatch: withoutName,
	}, nil
}

// matchServerName selects a filter chain for server names that match a regular expression (RE2).
func matchServerName(expression, chain string) (*matcherxdsv3.Matcher_MatcherList_FieldMatcher, error) {
	input, err := pack(&inputsv3.ServerNameInput{})
	if err != nil {
		return nil, err
	}
	action, err := selectChain(chain)
	if err != nil {
		return nil, err
	}
	matchesName := &matcherxdsv3.StringMatcher{
		MatchPattern: &matcherxdsv3.StringMatcher_SafeRegex{SafeRegex: &matcherxdsv3.RegexMatcher{
			EngineType: &matcherxdsv3.RegexMatcher_GoogleRe2{GoogleRe2: &matcherxdsv3.RegexMatcher_GoogleRE2{}},
			Regex:      expression,
		}},
	}
	predicate := &matcherxdsv3.Matcher_MatcherList_Predicate_SinglePredicate{
		Input:   &xdscorev3.TypedExtensionConfig{Name: "sni", TypedConfig: input},
		Matcher: &matcherxdsv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: matchesName},
	}
	return &matcherxdsv3.Matcher_MatcherList_FieldMatcher{
		Predicate: &matcherxdsv3.Matcher_MatcherList_Predicate{
			MatchType: &matcherxdsv3.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: predicate},
		},
		OnMatch: action,
	}, nil
}

// selectChain returns the action that selects a filter chain.
func selectChain(name string) (*matcherxdsv3.Matcher_OnMatch, error) {
	chain, err := pack(wrapperspb.String(name))
	if err != nil {
		return nil, err
	}
	return &matcherxdsv3.Matcher_OnMatch{OnMatch: &matcherxdsv3.Matcher_OnMatch_Action{
		Action: &xdscorev3.TypedExtensionConfig{Name: "chain", TypedConfig: chain},
	}}, nil
}

// downstreamTLS returns the transport socket, which requests certificates by name. Versions and ciphers are Envoy's
// defaults: TLS 1.2 and 1.3.
func downstreamTLS() (*corev3.TransportSocket, error) {
	mapper, err := pack(&sniv3.SNI{DefaultValue: string(model.NoServerName)})
	if err != nil {
		return nil, err
	}
	selector, err := pack(&ondemandv3.Config{
		ConfigSource:      adsSource(0),
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

// translateCertificates translates the secrets of hosts, which have the names of the hosts.
func (t *Translator) translateCertificates(certificates map[model.Host]*model.Certificate, out Update) error {
	if !t.options.TLS {
		return nil
	}
	for host, certificate := range certificates {
		if certificate == nil {
			if _, exists := t.hostsWithSecret[host]; exists {
				delete(t.hostsWithSecret, host)
				out.Removed[resourcev3.SecretType] = append(out.Removed[resourcev3.SecretType], string(host))
			}
			continue
		}
		secret := secretOf(host, certificate)
		if err := validate(secret); err != nil {
			return fmt.Errorf("secret %s: %w", host, err)
		}
		t.hostsWithSecret[host] = struct{}{}
		out.reserve(resourcev3.SecretType, len(certificates))
		out.Changed[resourcev3.SecretType][string(host)] = secret
	}
	return nil
}

// secretOf returns the certificate of a host with its key.
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
