package extauthz

import (
	"context"
	"net/http"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

const (
	// methodCheck is the name of the method.
	methodCheck = "Check"
	// messageLimit is the largest call in bytes. It contains the path, and Envoy limits all headers of a request to 1 MiB.
	messageLimit = 4 << 20
	// maxPath is the longest path in bytes that can be that of health checks. Others are not kept while a request waits.
	maxPath = 2 << 10
	// maxAccept is the longest header Accept in bytes by which the body of a placeholder is selected.
	maxAccept = 1 << 10
)

// Register adds the service to a server. It is described as a stream, so that a call is admitted before it is read.
func (s *Server) Register(on *grpcserver.Server) {
	on.RegisterWithLimits(&grpc.ServiceDesc{
		ServiceName: authv3.Authorization_ServiceDesc.ServiceName,
		Streams: []grpc.StreamDesc{{
			StreamName: methodCheck,
			Handler:    func(_ any, stream grpc.ServerStream) error { return s.ServeCheck(stream) },
		}},
	}, s, map[string]grpcserver.Limits{methodCheck: {
		Message: messageLimit, IsSingle: true, Repeated: 100,
		// attributes.request.http with its method, headers and path
		Fields: grpcserver.Fields{1: {4: {2: {2: nil, 3: nil, 4: nil}}}},
	}})
}

// ServeCheck implements the external authorization service for one call. A call above the limits is answered without
// being read.
func (s *Server) ServeCheck(stream grpc.ServerStream) error {
	ctx := stream.Context()
	request, err := callerOf(ctx)
	if err != nil {
		return err
	}
	leave, isAdmitted := s.admit(request)
	if !isAdmitted {
		full := outcome{decision: holding.Full}
		s.metrics.count(full, 0)
		return stream.SendMsg(response(full, false))
	}
	defer leave()
	if err := receive(stream, &request); err != nil {
		return err
	}
	answer, err := s.answer(ctx, request)
	if err != nil {
		return err
	}
	return stream.SendMsg(answer)
}

// admit counts a call until leave is called, or returns false if the limits do not allow it.
func (s *Server) admit(request holding.Request) (leave func(), isAdmitted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fleet, isAdmitted := s.running.enter(request.Proxy)
	if !isAdmitted {
		if s.queue.IsServedBy(request.Cluster, fleet) { // Otherwise it is not the workload's request.
			s.notifyOwner(request.Cluster, holding.Rejected)
		}
		return nil, false
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running.leave(request.Proxy, fleet)
	}, true
}

// callerOf returns a request with what the metadata of its call contains. The error is a gRPC status.
func callerOf(ctx context.Context) (holding.Request, error) {
	caller, ok := peer.FromContext(ctx)
	if !ok || caller.Addr == nil {
		return holding.Request{}, status.Error(codes.Internal, "no peer address")
	}
	address, err := server.PeerAddress(caller.Addr.String())
	if err != nil {
		return holding.Request{}, status.Errorf(codes.Internal, "invalid peer address %s: %v", caller.Addr, err)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	clusters := md.Get(translate.ClusterKey)
	if len(clusters) != 1 {
		return holding.Request{}, status.Errorf(codes.InvalidArgument,
			"metadata %s: %d values, want 1", translate.ClusterKey, len(clusters))
	}
	return holding.Request{
		Proxy: address, Cluster: clusters[0], IsViaFallback: len(md.Get(translate.HoldFallbackKey)) > 0,
	}, nil
}

// receive receives a call and adds its path and kind to the request. It keeps nothing else of the call.
func receive(stream grpc.ServerStream, request *holding.Request) error {
	check := new(authv3.CheckRequest)
	if err := stream.RecvMsg(check); err != nil {
		return err
	}
	attributes := check.GetAttributes().GetRequest().GetHttp()
	if path, _, _ := strings.Cut(attributes.GetPath(), "?"); len(path) <= maxPath {
		request.Path = strings.Clone(path)
	}
	request.IsPageView = attributes.GetMethod() == http.MethodGet &&
		strings.Contains(attributes.GetHeaders()["accept"], "text/html")
	if accept := attributes.GetHeaders()["accept"]; len(accept) <= maxAccept {
		request.Accept = strings.Clone(accept)
	}
	_ = stream.RecvMsg(new(authv3.CheckRequest)) // It ends the reservation of the call. There is no other one.
	return nil
}
