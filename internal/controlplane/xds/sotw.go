package xds

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// wholeTransport carries a session over a state-of-the-world stream.
type wholeTransport struct {
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer
}

func (t wholeTransport) receive() (request, error) {
	in, err := t.stream.Recv()
	if err != nil {
		return request{}, err
	}
	return request{
		typeURL: in.GetTypeUrl(),
		nonce:   in.GetResponseNonce(),
		refused: in.GetErrorDetail() != nil,
		message: in.GetErrorDetail().GetMessage(),
		names:   in.GetResourceNames(),
		version: in.GetVersionInfo(),
	}, nil
}

func (t wholeTransport) send(r response) error {
	out := &discoveryv3.DiscoveryResponse{
		VersionInfo: versionOfAll(r.resources).String(),
		TypeUrl:     r.kind.typeURL(),
		Nonce:       r.nonce,
		Resources:   make([]*anypb.Any, 0, len(r.resources)),
	}
	for _, res := range r.resources {
		out.Resources = append(out.Resources, res.wrapped())
	}
	return t.stream.Send(out)
}

// versionOfAll is the one version that a response in state of the world has: a hash
// of what it carries.
func versionOfAll(resources []*resource) version {
	var all []byte
	for _, res := range resources {
		all = append(append(append(all, res.name...), 0), res.version[:]...)
	}
	return hashOf(all)
}
