package xds

import (
	"errors"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit"
)

func TestServerCloses(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.world("a listener:web web>a")
	client := testkit.NewXDSClient(t, s.conn, testkit.XDSDelta)
	client.WaitFor(s.settled)
	s.Close()
	s.Close()
	state := client.WaitFor(func(state testkit.XDSState) bool { return state.StreamError != nil })
	if got := status.Code(state.StreamError); got != codes.Unavailable {
		t.Errorf("the stream ended with %v, want Unavailable", state.StreamError)
	}
	if err := s.Publish(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Publish on a closed server: %v, want ErrClosed", err)
	}
	client.Reconnect(s.conn)
	client.WaitFor(func(state testkit.XDSState) bool { return status.Code(state.StreamError) == codes.Unavailable })
	s.await(func(states []StreamState) bool { return len(states) == 0 })
}

func TestServerKeepsItsLimits(t *testing.T) {
	t.Parallel()
	s := serve(t, WithMaxStreams(1))
	first := testkit.NewXDSClient(t, s.conn, testkit.XDSDelta)
	s.world("a")
	first.WaitFor(func(state testkit.XDSState) bool { return len(state.Clusters) == 1 })
	second := testkit.NewXDSClient(t, s.conn, testkit.XDSDelta)
	second.WaitFor(func(state testkit.XDSState) bool { return status.Code(state.StreamError) == codes.ResourceExhausted })
	if state := first.State(); state.StreamError != nil {
		t.Errorf("the first stream ended: %v", state.StreamError)
	}
	first.Disconnect()
	s.await(func(states []StreamState) bool { return len(states) == 0 })

	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(s.conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", nameLimit+1)
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: resourcev3.EndpointType, ResourceNamesSubscribe: []string{long}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a name of %d bytes: %v, want ResourceExhausted", len(long), err)
	}
}

func TestServerKeepsTheLastGoodWorld(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.world("a listener:web web>a")
	before := s.versions(resourcev3.ScopedRouteType)
	if err := s.Publish(desiredWorld(t, "a listener:web web/2>ghost")); !errors.Is(err, ErrInconsistent) {
		t.Fatalf("Publish of a contradiction: %v, want ErrInconsistent", err)
	}
	if diff := cmp.Diff(before, s.versions(resourcev3.ScopedRouteType)); diff != "" {
		t.Errorf("the world changed (-before +after):\n%s", diff)
	}
	client := testkit.NewXDSClient(t, s.conn, testkit.XDSDelta)
	client.WaitFor(s.settled)
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	if _, err := NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("the second registration of the same metrics succeeded")
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("metric names: %v %v", problems, err)
	}
}
