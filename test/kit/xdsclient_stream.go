package kit

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
)

// xdsRequest is a discovery request in either mode.
type xdsRequest struct {
	typeURL                string
	nonce, version         string
	rejection              error
	subscribe, unsubscribe []string
	names                  []string          // state of the world
	initial                map[string]string // delta
}

// xdsResource is one resource of a response. In state of the world its name is
// in the body.
type xdsResource struct {
	name, version string
	body          *anypb.Any
}

// xdsResponse is a discovery response in either mode.
type xdsResponse struct {
	typeURL        string
	nonce, version string
	resources      []xdsResource
	removed        []string
}

// xdsStream is the client side of a stream in either mode.
type xdsStream interface {
	// send sends a request, with the node if it isn't nil.
	send(node *corev3.Node, r xdsRequest) error
	// receive waits for a response.
	receive() (xdsResponse, error)
}

// openXDSStream opens a stream in the given mode.
func openXDSStream(ctx context.Context, conn grpc.ClientConnInterface, mode XDSMode) (xdsStream, error) {
	client := discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	if mode == XDSDelta {
		stream, err := client.DeltaAggregatedResources(ctx, grpc.MaxCallRecvMsgSize(xdsMessageLimit))
		return xdsDeltaStream{stream}, err
	}
	stream, err := client.StreamAggregatedResources(ctx, grpc.MaxCallRecvMsgSize(xdsMessageLimit))
	return xdsSotWStream{stream}, err
}

// xdsDeltaStream is an incremental stream.
type xdsDeltaStream struct {
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func (s xdsDeltaStream) send(node *corev3.Node, r xdsRequest) error {
	return s.stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node:                     node,
		TypeUrl:                  r.typeURL,
		ResponseNonce:            r.nonce,
		ErrorDetail:              errorDetail(r.rejection),
		ResourceNamesSubscribe:   r.subscribe,
		ResourceNamesUnsubscribe: r.unsubscribe,
		InitialResourceVersions:  r.initial,
	})
}

func (s xdsDeltaStream) receive() (xdsResponse, error) {
	in, err := s.stream.Recv()
	if err != nil {
		return xdsResponse{}, err
	}
	out := xdsResponse{typeURL: in.GetTypeUrl(), nonce: in.GetNonce(), removed: in.GetRemovedResources()}
	for _, res := range in.GetResources() {
		out.resources = append(out.resources,
			xdsResource{name: res.GetName(), version: res.GetVersion(), body: res.GetResource()})
	}
	return out, nil
}

// xdsSotWStream is a stream in state of the world.
type xdsSotWStream struct {
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
}

func (s xdsSotWStream) send(node *corev3.Node, r xdsRequest) error {
	return s.stream.Send(&discoveryv3.DiscoveryRequest{
		Node:          node,
		TypeUrl:       r.typeURL,
		ResponseNonce: r.nonce,
		VersionInfo:   r.version,
		ErrorDetail:   errorDetail(r.rejection),
		ResourceNames: r.names,
	})
}

func (s xdsSotWStream) receive() (xdsResponse, error) {
	in, err := s.stream.Recv()
	if err != nil {
		return xdsResponse{}, err
	}
	out := xdsResponse{typeURL: in.GetTypeUrl(), nonce: in.GetNonce(), version: in.GetVersionInfo()}
	for _, body := range in.GetResources() {
		out.resources = append(out.resources, xdsResource{version: in.GetVersionInfo(), body: body})
	}
	return out, nil
}

// errorDetail returns the field that makes a request a NACK.
func errorDetail(rejection error) *status.Status {
	if rejection == nil {
		return nil
	}
	return &status.Status{Code: int32(codes.Internal), Message: rejection.Error()}
}
