package xds

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
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
	out := &discoveryv3.DiscoveryResponse{
		VersionInfo: r.Version(),
		TypeUrl:     r.Kind.TypeURL(),
		Nonce:       r.Nonce,
		Resources:   make([]*anypb.Any, 0, len(r.Resources)),
	}
	for _, res := range r.Resources {
		out.Resources = append(out.Resources, res.Any())
	}
	return t.stream.Send(out)
}
