package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/structpb"
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

// upstreamSockets returns the transport sockets for workloads with TLS. The certificate is not verified: no CA is
// configured, and workloads in a cluster use self-signed certificates. The traffic between proxy and Pod is therefore
// protected against passive attackers, but not against an attacker who can impersonate the Pod.
func upstreamSockets() ([]*clusterv3.Cluster_TransportSocketMatch, error) {
	raw, err := pack(&rawv3.RawBuffer{})
	if err != nil {
		return nil, err
	}
	tlsContext, err := pack(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		AlpnProtocols: []string{"http/1.1"},
	}})
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
		{
			Name: "app", Match: &structpb.Struct{},
			TransportSocket: &corev3.TransportSocket{
				Name:       "envoy.transport_sockets.tls",
				ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: tlsContext},
			},
		},
	}, nil
}

// interceptorTLS returns the transport socket for calls of the interceptor. Its certificate must be signed by one of the
// CAs, in PEM, and have a DNS name.
func interceptorTLS(ca, name string) (*corev3.TransportSocket, error) {
	tlsContext, err := pack(&tlsv3.UpstreamTlsContext{
		Sni: name,
		CommonTlsContext: &tlsv3.CommonTlsContext{
			AlpnProtocols: []string{"h2"},
			TlsParams: &tlsv3.TlsParameters{
				TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
			},
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
				ValidationContext: &tlsv3.CertificateValidationContext{
					TrustedCa: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: ca}},
					MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{{
						SanType: tlsv3.SubjectAltNameMatcher_DNS, Matcher: exactString(name),
					}},
				},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: tlsContext},
	}, nil
}
