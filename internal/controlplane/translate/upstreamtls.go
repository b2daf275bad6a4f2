package translate

import (
	"net/netip"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// socketMatch is the metadata by which Envoy selects the transport socket of an endpoint. plaintextKey is the key
// for endpoints without TLS in a cluster with TLS.
const socketMatch, plaintextKey = "envoy.transport_socket_match", "kedify-clear-text"

// plaintextMetadata marks an endpoint without TLS: the fallback listener, which replaces the endpoints of a workload.
func plaintextMetadata() *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{socketMatch: plaintextMatch()}}
}

// plaintextMatch returns the criterion of that metadata.
func plaintextMatch() *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{plaintextKey: structpb.NewBoolValue(true)}}
}

// socketsOf returns the transport sockets for workloads with TLS, shared by all clusters without settings.
func (f clusterFactory) socketsOf(settings model.UpstreamTLS) ([]*clusterv3.Cluster_TransportSocketMatch, error) {
	if settings == (model.UpstreamTLS{}) {
		return f.sockets, nil
	}
	return upstreamSockets(settings)
}

// upstreamSockets returns the transport sockets for workloads with TLS. Without a CA the certificate is not verified:
// workloads in a cluster use self-signed certificates. The traffic between proxy and Pod is then protected against
// passive attackers, but not against an attacker who can impersonate the Pod.
func upstreamSockets(settings model.UpstreamTLS) ([]*clusterv3.Cluster_TransportSocketMatch, error) {
	raw, err := pack(&rawv3.RawBuffer{})
	if err != nil {
		return nil, err
	}
	common := &tlsv3.CommonTlsContext{AlpnProtocols: []string{"http/1.1"}}
	if settings.CA != "" {
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: validation(settings)}
	}
	secure, err := tlsSocket(&tlsv3.UpstreamTlsContext{CommonTlsContext: common})
	if err != nil {
		return nil, err
	}
	return []*clusterv3.Cluster_TransportSocketMatch{
		{
			Name: "net", Match: plaintextMatch(),
			TransportSocket: &corev3.TransportSocket{
				Name:       "envoy.transport_sockets.raw_buffer",
				ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: raw},
			},
		},
		{Name: "app", Match: &structpb.Struct{}, TransportSocket: secure},
	}, nil
}

// tlsSocket returns the transport socket of a TLS client.
func tlsSocket(settings *tlsv3.UpstreamTlsContext) (*corev3.TransportSocket, error) {
	packed, err := pack(settings)
	if err != nil {
		return nil, err
	}
	return &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed},
	}, nil
}

// validation returns the context that verifies the certificate of a server by CA and DNS name.
func validation(settings model.UpstreamTLS) *tlsv3.CertificateValidationContext {
	context := &tlsv3.CertificateValidationContext{TrustedCa: &corev3.DataSource{
		Specifier: &corev3.DataSource_InlineString{InlineString: settings.CA},
	}}
	match := func(name *matcherv3.StringMatcher) {
		context.MatchTypedSubjectAltNames = []*tlsv3.SubjectAltNameMatcher{{
			SanType: tlsv3.SubjectAltNameMatcher_DNS, Matcher: name,
		}}
	}
	switch {
	case settings.Name != "":
		match(exactString(settings.Name))
	case settings.NameSuffix != "":
		match(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: settings.NameSuffix}})
	}
	return context
}

// interceptorTLS returns the transport socket for calls of the interceptor. Its certificate must be signed by one of
// the CAs, in PEM, and have a DNS name.
func interceptorTLS(ca, name string) (*corev3.TransportSocket, error) {
	return tlsSocket(&tlsv3.UpstreamTlsContext{
		Sni: name,
		CommonTlsContext: &tlsv3.CommonTlsContext{
			AlpnProtocols: []string{"h2"},
			TlsParams: &tlsv3.TlsParameters{
				TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
			},
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
				ValidationContext: validation(model.UpstreamTLS{CA: ca, Name: name}),
			},
		},
	})
}

// collectorTLS returns the transport socket for a collector of traces with a DNS name or an IP address, whose certificate
// must be signed by one of the CAs in PEM. An IP address is no server name (RFC 6066, section 3).
func collectorTLS(ca, name string) (*corev3.TransportSocket, error) {
	certificate, serverName := validation(model.UpstreamTLS{CA: ca, Name: name}), name
	if _, err := netip.ParseAddr(name); err == nil {
		certificate.MatchTypedSubjectAltNames[0].SanType, serverName = tlsv3.SubjectAltNameMatcher_IP_ADDRESS, ""
	}
	return tlsSocket(&tlsv3.UpstreamTlsContext{
		Sni: serverName,
		CommonTlsContext: &tlsv3.CommonTlsContext{
			AlpnProtocols:         []string{"h2"},
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: certificate},
		},
	})
}
