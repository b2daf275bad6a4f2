package grpcserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rawgrpc"
)

func TestMain(m *testing.M) { leak.Main(m) }

// path is the path of the delta method.
const path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

// limit is the limit of messages in bytes.
const limit = 16 << 20

// echo answers each request with its type and as many resources as it has names, or for the type "count" with their
// number. The type "panic" panics, and others than these are the status of the stream. Requests of the type "block" are answered when blocked is closed.
type echo struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	blocked chan struct{}
	arrived chan struct{} // receives an element for each request of the type "block"
	sending atomic.Int64  // the number of large responses
	ended   sync.WaitGroup
}

func (e *echo) DeltaAggregatedResources(
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	e.ended.Add(1)
	defer e.ended.Done()
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		received, _ := metadata.FromIncomingContext(stream.Context())
		from, _ := peer.FromContext(stream.Context())
		response := &discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: request.GetTypeUrl(), Nonce: strings.Join(received.Get("x-test"), ","), SystemVersionInfo: from.Addr.String(),
			Resources: make([]*discoveryv3.Resource, len(request.GetResourceNamesSubscribe())),
		}
		switch request.GetTypeUrl() {
		case "echo":
		case "count":
			response.Nonce, response.Resources = strconv.Itoa(len(response.GetResources())), nil
		case "large":
			if err := stream.SendMsg(e.largeResponse()); err != nil {
				return err
			}
			continue
		case "panic":
			panic("a bug")
		case "block":
			e.arrived <- struct{}{}
			select {
			case <-e.blocked:
			case <-stream.Context().Done():
			}
		default:
			return status.Error(codes.FailedPrecondition, request.GetTypeUrl())
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

// StreamAggregatedResources receives one request.
func (e *echo) StreamAggregatedResources(
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer,
) error {
	_, err := stream.Recv()
	return err
}

// largeParts is the number of resources of a large response, and largePart the length of their names.
const largeParts, largePart = 1 << 10, 64 << 10

// largeResponse returns a response of 64 MiB that is encoded while it is sent. The sizes of the parts are read first.
func (e *echo) largeResponse() grpcserver.Parts {
	isSent := false
	return func(yield func([]byte) bool) {
		if isSent {
			e.sending.Add(1)
		}
		isSent = true
		part, _ := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{
			Resources: []*discoveryv3.Resource{{Name: strings.Repeat("x", largePart)}},
		})
		for range largeParts {
			if !yield(part) {
				return
			}
		}
	}
}

// served is a server with an echo.
type served struct {
	*grpcserver.Server

	echo     *echo
	address  string
	received *grpcserver.Budget
}

// serve serves an echo until the test ends.
func serve(tb testing.TB, options grpcserver.Options) *served {
	tb.Helper()
	return serveOn(tb, options, func(listener net.Listener) net.Listener { return listener })
}

// serveOn is serve on a listener that is wrapped.
func serveOn(tb testing.TB, options grpcserver.Options, wrap func(net.Listener) net.Listener) *served {
	tb.Helper()
	s := &served{
		echo:     &echo{blocked: make(chan struct{}), arrived: make(chan struct{}, 1000)},
		received: grpcserver.NewBudget(128<<20, 64<<20),
	}
	options.Received = s.received
	s.Server = grpcserver.New(options)
	s.RegisterWithLimits(&discoveryv3.AggregatedDiscoveryService_ServiceDesc, s.echo, map[string]grpcserver.Limits{
		"DeltaAggregatedResources": {
			Message: limit, Fields: grpcserver.Fields{2: nil, 3: nil, 5: nil}, Repeated: 100_001,
		},
		"StreamAggregatedResources": {Message: limit, IsSingle: true},
	})
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.address = listener.Addr().String()
	done := make(chan error, 1)
	go func() { done <- s.Serve(wrap(listener)) }()
	tb.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			tb.Errorf("serve: %v", err)
		}
		awaitAll(tb, "all reservations have ended", func() bool { return s.received.Used() == 0 })
	})
	return s
}

// awaitAll is await.True for a cleanup, after the end of the test's context.
func awaitAll(tb testing.TB, what string, ready func() bool) {
	tb.Helper()
	if err := await.Until(context.Background(), what, ready, func() string { return "it never came true" }); err != nil {
		tb.Error(err)
	}
}

// client returns a gRPC client that ends with the test.
func (s *served) client(tb testing.TB) discoveryv3.AggregatedDiscoveryServiceClient {
	tb.Helper()
	return s.clientWith(tb, insecure.NewCredentials())
}

// clientWith is client with credentials.
func (s *served) clientWith(
	tb testing.TB, with credentials.TransportCredentials,
) discoveryv3.AggregatedDiscoveryServiceClient {
	tb.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(with))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
}

// stream opens a stream that ends with the test.
func (s *served) stream(
	tb testing.TB, options ...grpc.CallOption,
) discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient {
	tb.Helper()
	ctx := metadata.AppendToOutgoingContext(await.Context(tb), "X-Test", "a", "x-test", "b")
	stream, err := s.client(tb).DeltaAggregatedResources(ctx, options...)
	if err != nil {
		tb.Fatal(err)
	}
	return stream
}

// ofType returns a request of a type with names.
func ofType(name string, names ...string) *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: name, ResourceNamesSubscribe: names}
}

// TestStream sends and receives on one stream, with the metadata and the address of the client. It ends with a status.
func TestStream(t *testing.T) {
	t.Parallel()
	s := serve(t, grpcserver.Options{})
	stream := s.stream(t)
	for _, names := range [][]string{{"a"}, {"a", "b"}, nil, make([]string, 50_000)} {
		if err := stream.Send(ofType("echo", names...)); err != nil {
			t.Fatal(err)
		}
		response, err := stream.Recv()
		if err != nil || len(response.GetResources()) != len(names) || response.GetNonce() != "a,b" ||
			!strings.HasPrefix(response.GetSystemVersionInfo(), "127.0.0.1:") {
			t.Fatalf("%d names: %v, %v", len(names), response, err)
		}
	}
	if err := stream.Send(ofType("100 % of ö")); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.FailedPrecondition ||
		status.Convert(err).Message() != "100 % of ö" {
		t.Errorf("the status is %v", err)
	}
}

// TestManyAcknowledgements sends as many messages as a proxy that acknowledges 100 changes per second for ten minutes,
// over TLS and without. No limit depends on their number.
func TestManyAcknowledgements(t *testing.T) {
	t.Parallel()
	name := transport.Name("keda")
	data := kit.NewServerCertificate(t, name)
	certificates := &transport.Certificates{Name: name}
	if _, err := certificates.Set(data); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data["ca.crt"])
	for what, with := range map[string]credentials.TransportCredentials{
		"TLS":       credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS13}),
		"plaintext": insecure.NewCredentials(),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := serveOn(t, grpcserver.Options{}, func(listener net.Listener) net.Listener {
				return transport.Listen(listener, transport.Options{
					Certificates: certificates, Logger: slog.New(slog.DiscardHandler),
				})
			})
			stream, err := s.clientWith(t, with).DeltaAggregatedResources(await.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			const count = 60_000
			sent := make(chan error, 1)
			go func() {
				acknowledgement := ofType("count", "a")
				acknowledgement.ResponseNonce = strings.Repeat("n", 200)
				for range count {
					if err := stream.Send(acknowledgement); err != nil {
						sent <- err
						return
					}
				}
				sent <- nil
			}()
			for i := range count {
				if _, err := stream.Recv(); err != nil {
					t.Fatalf("after %d messages: %v", i, err)
				}
			}
			if err := <-sent; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEndOfStream ends streams by the client: with a half-close, and by a cancellation.
func TestEndOfStream(t *testing.T) {
	t.Parallel()
	s := serve(t, grpcserver.Options{})
	stream := s.stream(t)
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after a half-close: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	canceled, err := s.client(t).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := canceled.Send(ofType("block")); err != nil {
		t.Fatal(err)
	}
	<-s.echo.arrived
	cancel()
	s.echo.ended.Wait()
}

// TestPanicEndsOnlyItsStream has another stream on the same connection.
func TestPanicEndsOnlyItsStream(t *testing.T) {
	t.Parallel()
	client := serve(t, grpcserver.Options{}).client(t)
	other, err := client.DeltaAggregatedResources(await.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := client.DeltaAggregatedResources(await.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(ofType("panic")); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("status %v, want Internal", err)
	}
	if err := other.Send(ofType("echo")); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Recv(); err != nil {
		t.Errorf("the other stream: %v", err)
	}
}

// TestInvalidStreams have a status, and do not affect others.
func TestInvalidStreams(t *testing.T) { //nolint:tparallel // the streams at the end come after those of the subtests
	t.Parallel()
	s := serve(t, grpcserver.Options{MaxStreams: 4})
	const single = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	compressed := rawgrpc.Message([]byte("x"))
	compressed[0] = 1
	for name, test := range map[string]struct {
		path string
		data []byte
		want codes.Code
	}{
		"unknown method":           {path: "/x/y", want: codes.Unimplemented},
		"too large":                {path: path, data: rawgrpc.Prefix(limit + 1), want: codes.ResourceExhausted},
		"malformed":                {path: path, data: rawgrpc.Message([]byte{0xff}), want: codes.InvalidArgument},
		"compressed":               {path: path, data: compressed, want: codes.Unimplemented},
		"incomplete":               {path: path, data: rawgrpc.Prefix(10), want: codes.InvalidArgument},
		"two messages, one wanted": {path: single, data: append(rawgrpc.Message(nil), rawgrpc.Message(nil)...), want: codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, s.address)
			if err := conn.Headers(1, test.path); err != nil {
				t.Fatal(err)
			}
			if err := conn.Send(1, test.data, 1<<14, nil); err != nil && !errors.Is(err, rawgrpc.ErrEnded) {
				t.Fatal(err)
			}
			_ = conn.End(1) // The server may have ended the stream.
			if got := conn.Status(1); got != statusNumber(test.want) {
				t.Errorf("status %q, want %s", got, statusNumber(test.want))
			}
		})
	}
	var open []discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	for range 4 {
		stream := s.stream(t)
		if err := stream.Send(ofType("echo")); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		open = append(open, stream)
	}
	if _, err := s.stream(t).Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one stream more than the limit: %v", err)
	}
	_ = open
}

// statusNumber returns a status as in the trailer.
func statusNumber(code codes.Code) string {
	return strconv.Itoa(int(code))
}

// dial opens a connection that ends with the test.
func dial(tb testing.TB, address string) *rawgrpc.Conn {
	tb.Helper()
	conn, err := rawgrpc.Dial(tb.Context(), netip.Addr{}, address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	if err := conn.Start(); err != nil {
		tb.Fatal(err)
	}
	return conn
}

// TestUnusedFieldsAreNotDecoded sends names together with a node that nothing uses.
func TestUnusedFieldsAreNotDecoded(t *testing.T) {
	t.Parallel()
	stream := serve(t, grpcserver.Options{}).stream(t)
	request := ofType("echo", "a", "b")
	request.Node = &corev3.Node{Id: strings.Repeat("x", 1<<20)}
	if err := stream.Send(request); err != nil {
		t.Fatal(err)
	}
	if response, err := stream.Recv(); err != nil || len(response.GetResources()) != 2 {
		t.Errorf("%v, %v", response, err)
	}
}

// TestMessagesWaitForTheirReservation has a fleet whose streams do not finish large messages. Another message of the
// fleet waits, and those of another fleet are received.
func TestMessagesWaitForTheirReservation(t *testing.T) {
	t.Parallel()
	fleets := map[string]string{"127.0.0.1": "evil", "127.0.0.2": "apps"}
	s := serve(t, grpcserver.Options{AccountOf: func(at netip.Addr) string { return fleets[at.String()] }})
	large, err := proto.Marshal(ofType("block", strings.Repeat("x", limit-100)))
	if err != nil {
		t.Fatal(err)
	}
	start := func(from string, id uint32) *rawgrpc.Conn {
		conn, err := rawgrpc.Dial(t.Context(), netip.MustParseAddr(from), s.address)
		if err == nil {
			err = conn.Start()
		}
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
			err = conn.Headers(id, path)
		}
		if err == nil {
			err = conn.Send(id, rawgrpc.Prefix(len(large)), 1<<14, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	first := start("127.0.0.1", 1)
	await.True(t, "the first message has a reservation", func() bool { return s.received.Used() > 0 })
	used := s.received.Used()
	second, other := start("127.0.0.1", 1), start("127.0.0.2", 1)
	await.True(t, "the message of the other fleet has a reservation", func() bool { return s.received.Used() == 2*used })
	if err := other.Send(1, large, 1<<14, nil); err != nil {
		t.Fatal(err)
	}
	<-s.echo.arrived
	if s.received.Used() != 2*used {
		t.Errorf("%d bytes are reserved while a message is handled, want %d", s.received.Used(), 2*used)
	}
	sent := make(chan error, 1)
	go func() { sent <- second.Send(1, large, 1<<14, nil) }()
	if err := first.Send(1, large, 1<<14, nil); err != nil {
		t.Fatal(err)
	}
	<-s.echo.arrived
	if len(s.echo.arrived) > 0 {
		t.Error("the second message of the fleet was received without a reservation")
	}
	close(s.echo.blocked)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	<-s.echo.arrived
}

// TestParts receives a response that is encoded while it is sent.
func TestParts(t *testing.T) {
	t.Parallel()
	stream := serve(t, grpcserver.Options{}).stream(t, grpc.MaxCallRecvMsgSize(128<<20))
	for _, kind := range []string{"large", "echo"} {
		if err := stream.Send(ofType(kind)); err != nil {
			t.Fatal(err)
		}
		response, err := stream.Recv()
		if err != nil || kind == "large" && len(response.GetResources()) != largeParts {
			t.Fatalf("%s: %d resources, %v", kind, len(response.GetResources()), err)
		}
		for _, resource := range response.GetResources() {
			if len(resource.GetName()) != largePart {
				t.Fatalf("a name of %d bytes", len(resource.GetName()))
			}
		}
	}
}
