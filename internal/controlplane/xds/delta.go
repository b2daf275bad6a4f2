package xds

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
)

// deltaTransport is an incremental stream.
type deltaTransport struct {
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
}

func (t deltaTransport) receive() (session.Request, error) {
	in, err := t.stream.Recv()
	if err != nil {
		return session.Request{}, err
	}
	return session.Request{
		TypeURL:         in.GetTypeUrl(),
		Nonce:           in.GetResponseNonce(),
		Rejected:        in.GetErrorDetail() != nil,
		Message:         in.GetErrorDetail().GetMessage(),
		Subscribe:       in.GetResourceNamesSubscribe(),
		Unsubscribe:     in.GetResourceNamesUnsubscribe(),
		InitialVersions: in.GetInitialResourceVersions(),
	}, nil
}

func (t deltaTransport) send(r session.Response) error {
	head := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: r.Kind.TypeURL(), Nonce: r.Nonce, RemovedResources: r.Removed,
	}
	one := &discoveryv3.DeltaDiscoveryResponse{Resources: []*discoveryv3.Resource{{}}}
	return t.stream.SendMsg(encode(head, r.Resources, func(res *session.Resource, body *anypb.Any) proto.Message {
		one.Resources[0] = &discoveryv3.Resource{Name: res.Name(), Version: res.Version(), Resource: body}
		return one
	}))
}
