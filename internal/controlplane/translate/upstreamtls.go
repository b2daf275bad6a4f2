package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// socketMatch is the metadata of an endpoint by which Envoy finds its transport socket, and clearText the key of those that
// take no TLS whatever their cluster.
const socketMatch, clearText = "envoy.transport_socket_match", "kedify-clear-text"

// inClearText marks an endpoint that takes no TLS: the net, which stands in for an app.
func inClearText() *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{socketMatch: clearTextMark()}}
}

// clearTextMark is that metadata.
func clearTextMark() *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{clearText: structpb.NewBoolValue(true)}}
}

// upstreamSockets are how an app is spoken to that takes TLS. Its certificate is not checked: nothing says which authority to
// trust, and apps in a cluster sign their own. So what is between a proxy and a Pod can be read by nobody who only listens, and by
// whoever can answer in the Pod's place.
func upstreamSockets() ([]*clusterv3.Cluster_TransportSocketMatch, error) {
	raw, err := pack(&rawv3.RawBuffer{})
	if err != nil {
		return nil, err
	}
	secured, err := pack(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		AlpnProtocols: []string{"http/1.1"},
	}})
	if err != nil {
		return nil, err
	}
	return []*clusterv3.Cluster_TransportSocketMatch{
		{
			Name: "net", Match: clearTextMark(),
			TransportSocket: &corev3.TransportSocket{
				Name:       "envoy.transport_sockets.raw_buffer",
				ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: raw},
			},
		},
		{
			Name: "app", Match: &structpb.Struct{},
			TransportSocket: &corev3.TransportSocket{
				Name:       "envoy.transport_sockets.tls",
				ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: secured},
			},
		},
	}, nil
}
