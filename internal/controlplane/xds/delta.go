package xds

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

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
	out := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl:          r.Kind.TypeURL(),
		Nonce:            r.Nonce,
		Resources:        make([]*discoveryv3.Resource, 0, len(r.Resources)),
		RemovedResources: r.Removed,
	}
	for _, res := range r.Resources {
		out.Resources = append(out.Resources, &discoveryv3.Resource{
			Name:     res.Name(),
			Version:  res.Version(),
			Resource: res.Any(),
		})
	}
	return t.stream.Send(out)
}
