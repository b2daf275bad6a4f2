package envoy_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// grpcClient returns a client for the calls of a host.
func grpcClient(t *testing.T, address, host string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(host))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// grpcOutcome is the outcome of a call: the status, and the reason that the proxy gives.
type grpcOutcome struct {
	code   codes.Code
	reason string
}

// call makes a unary call. The reason is in the header, or in the trailer of a response without a message.
func call(ctx context.Context, connection *grpc.ClientConn, method string) (grpcOutcome, error) {
	var header, trailer metadata.MD
	err := connection.Invoke(ctx, method, new(grpc_health_v1.HealthCheckRequest),
		new(grpc_health_v1.HealthCheckRequest), grpc.Header(&header), grpc.Trailer(&trailer))
	reason := slices.Concat(header.Get(translate.ReasonHeader), trailer.Get(translate.ReasonHeader))
	return grpcOutcome{status.Code(err), strings.Join(reason, ",")}, err
}

// TestStatusOfFailedGRPCCalls: a gRPC client receives the proxy's errors as a grpc-status, with the reason that an HTTP
// client receives.
func TestStatusOfFailedGRPCCalls(t *testing.T) {
	t.Parallel()
	limited := kit.NewScaledObject(namespace, "limited", "limited", 1, "limited.example.com")
	limited.Spec.Timeouts = &httpv1alpha1.Timeouts{ResponseHeader: &metav1.Duration{Duration: chunkPause / 3}}
	inputs := newInputs(t, []*backend{startBackend(t, "limited"), startBackend(t, "free"), startBackend(t, "empty")},
		limited, kit.NewScaledObject(namespace, "free", "free", 2, "free.example.com"),
		kit.NewScaledObject(namespace, "empty", "empty", 3, "empty.example.com"))
	for _, service := range inputs.Services {
		service.Ports[0].Protocol = model.HTTP2
	}
	inputs = without(inputs, "empty")
	resources := translated(t, inputs, translate.DefaultOptions())
	s := serve(t, "DELTA_GRPC", resources)
	s.await(t, resources)
	for name, c := range map[string]struct {
		host, method string
		want         grpcOutcome
	}{
		"a response":       {"free.example.com", "/test.Talk/Talk", grpcOutcome{codes.OK, ""}},
		"a timeout":        {"limited.example.com", "/silent", grpcOutcome{codes.Unavailable, translate.ReasonTimeout}},
		"a reset":          {"free.example.com", "/abort", grpcOutcome{codes.Unavailable, translate.ReasonReset}},
		"no endpoint":      {"empty.example.com", "/test.Talk/Talk", grpcOutcome{codes.Unavailable, ""}},
		"an unknown host":  {"unknown.example.org", "/test.Talk/Talk", grpcOutcome{codes.Unimplemented, ""}},
		"an answer by 413": {"free.example.com", "/reject", grpcOutcome{codes.Unknown, ""}}, // by the client's rule
	} {
		got, err := call(await.Context(t), grpcClient(t, s.address, c.host), c.method)
		if got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	// Without a limit, only the client's deadline ends a call.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) //testbounds:allow the deadline is the subject
	defer cancel()
	if got, err := call(ctx, grpcClient(t, s.address, "free.example.com"), "/silent"); got.code != codes.DeadlineExceeded {
		t.Errorf("without a limit: %+v, %v", got, err)
	}
}

// TestTimeoutsOfGRPCStreams: the timeout of an object limits the time to the first message of a stream, not its length.
func TestTimeoutsOfGRPCStreams(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"a limit": time.Second, "no limit": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.NewScaledObject(namespace, "calls", "calls", 1, "calls.example.com")
			object.Spec.Timeouts = &httpv1alpha1.Timeouts{ResponseHeader: &metav1.Duration{Duration: timeout}}
			inputs := newInputs(t, []*backend{startBackend(t, "calls")}, object)
			inputs.Services[0].Ports[0].Protocol = model.HTTP2
			p := start(t, translated(t, inputs, translate.DefaultOptions()))
			client := grpc_health_v1.NewHealthClient(grpcClient(t, p.address, "calls.example.com"))
			ctx, cancel := context.WithCancel(await.Context(t))
			defer cancel()
			var stream grpc_health_v1.Health_WatchClient
			await.True(t, "a first message in time", func() bool {
				var err error
				stream, err = client.Watch(ctx, new(grpc_health_v1.HealthCheckRequest))
				if err == nil {
					_, err = stream.Recv()
				}
				return err == nil
			})
			time.AfterFunc(2*time.Second, cancel) //testbounds:allow the client cancels after the limit
			if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
				t.Errorf("the stream ended with %v before the client has canceled it", err)
			}
		})
	}
}

// TestGRPCFailover: the failover Service answers a gRPC stream whose application does not become ready, message by
// message.
func TestGRPCFailover(t *testing.T) {
	t.Parallel()
	object := kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com")
	object.Spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{
		Service: "shop-failover", Port: 80, TimeoutSeconds: new(int32(1)),
	}
	all := newInputs(t, []*backend{startBackend(t, "shop"), startBackend(t, "shop-failover")}, object)
	for _, service := range all.Services {
		service.Ports[0].Protocol = model.HTTP2
	}
	r := startWithReplica(t, "DELTA_GRPC", without(all, "shop"))
	stream, err := grpcClient(t, r.address, "shop.example.com").NewStream(await.Context(t),
		&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Talk/Talk")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		message := &grpc_health_v1.HealthCheckRequest{Service: "x"}
		if err := stream.SendMsg(message); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(message); err != nil || message.GetService() != "x" {
			t.Fatalf("%q, %v", message.GetService(), err)
		}
	}
	header, err := stream.Header()
	if reason := header.Get(extauthz.ReasonHeader); err != nil || strings.Join(reason, ",") != extauthz.ReasonFailover {
		t.Errorf("the header is %v, %v", header, err)
	}
}
