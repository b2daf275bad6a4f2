package xds

import discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

// deltaTransport carries a session over an incremental stream.
type deltaTransport struct {
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
}

func (t deltaTransport) receive() (request, error) {
	in, err := t.stream.Recv()
	if err != nil {
		return request{}, err
	}
	return request{
		typeURL:     in.GetTypeUrl(),
		nonce:       in.GetResponseNonce(),
		refused:     in.GetErrorDetail() != nil,
		message:     in.GetErrorDetail().GetMessage(),
		subscribe:   in.GetResourceNamesSubscribe(),
		unsubscribe: in.GetResourceNamesUnsubscribe(),
		initial:     in.GetInitialResourceVersions(),
	}, nil
}

func (t deltaTransport) send(r response) error {
	out := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl:          r.kind.typeURL(),
		Nonce:            r.nonce,
		Resources:        make([]*discoveryv3.Resource, 0, len(r.resources)),
		RemovedResources: r.removed,
	}
	for _, res := range r.resources {
		out.Resources = append(out.Resources, &discoveryv3.Resource{
			Name:     res.name,
			Version:  res.version.String(),
			Resource: res.wrapped(),
		})
	}
	return t.stream.Send(out)
}
