package xds

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
)

// sotwTransport is a state-of-the-world stream.
type sotwTransport struct {
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer
}

func (t sotwTransport) receive() (session.Request, error) {
	in, err := t.stream.Recv()
	if err != nil {
		return session.Request{}, err
	}
	return session.Request{
		TypeURL:  in.GetTypeUrl(),
		Nonce:    in.GetResponseNonce(),
		Rejected: in.GetErrorDetail() != nil,
		Message:  in.GetErrorDetail().GetMessage(),
		Names:    in.GetResourceNames(),
		Version:  in.GetVersionInfo(),
	}, nil
}

func (t sotwTransport) send(r session.Response) error {
	head := &discoveryv3.DiscoveryResponse{VersionInfo: r.Version(), TypeUrl: r.Kind.TypeURL(), Nonce: r.Nonce}
	one := &discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{{}}}
	return t.stream.SendMsg(encode(head, r.Resources, func(_ *session.Resource, body *anypb.Any) proto.Message {
		one.Resources[0] = body
		return one
	}))
}
