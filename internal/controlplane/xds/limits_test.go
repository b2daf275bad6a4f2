package xds

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

func TestServerClose(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	s.publishItems("a listener:web web>a")
	client := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	client.WaitFor(s.isSynced)
	s.Close()
	s.Close()
	state := client.WaitFor(func(state kit.XDSState) bool { return state.StreamError != nil })
	if got := status.Code(state.StreamError); got != codes.Unavailable {
		t.Errorf("the stream ended with %v, want Unavailable", state.StreamError)
	}
	if err := s.Publish(testFleet, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Publish on a closed server: %v, want ErrClosed", err)
	}
	client.Reconnect(s.conn)
	client.WaitFor(func(state kit.XDSState) bool { return status.Code(state.StreamError) == codes.Unavailable })
	s.await(func(states []StreamState) bool { return len(states) == 0 })
}

func TestServerLimits(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{MaxStreams: 1})
	first := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	s.publishItems("a")
	first.WaitFor(func(state kit.XDSState) bool { return len(state.Clusters) == 1 })
	second := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	second.WaitFor(func(state kit.XDSState) bool { return status.Code(state.StreamError) == codes.ResourceExhausted })
	if state := first.State(); state.StreamError != nil {
		t.Errorf("the first stream ended: %v", state.StreamError)
	}
	first.Disconnect()
	s.await(func(states []StreamState) bool { return len(states) == 0 })

	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(s.conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", session.MaxNameLength+1)
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: resourcev3.EndpointType, ResourceNamesSubscribe: []string{long, "a"},
	}); err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil || len(response.GetResources()) != 1 || response.GetResources()[0].GetName() != "a" {
		t.Errorf("a name of %d bytes, and another one: %v, %v; want the other one", len(long), response, err)
	}
}

// TestServerLimitsStreamsPerAddress opens one stream after the other from one address.
func TestServerLimitsStreamsPerAddress(t *testing.T) {
	t.Parallel()
	s := NewServer(Options{})
	leave := func() {}
	for i := range streamsPerAddress {
		var err error
		if leave, err = s.enter(fmt.Sprintf("10.0.0.7:%d", 40000+i)); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	if _, err := s.enter("[::ffff:10.0.0.7]:50000"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more of the address: %v, want ResourceExhausted", err)
	}
	if _, err := s.enter("10.0.0.8:40000"); err != nil {
		t.Errorf("one of another address: %v", err)
	}
	leave()
	if _, err := s.enter("10.0.0.7:50001"); err != nil {
		t.Errorf("one after another has ended: %v", err)
	}
}

func TestPublishKeepsLastValidSnapshot(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	s.publishItems("a listener:web web>a")
	before := s.versions(resourcev3.ScopedRouteType)
	if err := s.Publish(
		testFleet, envoyresources.Parse(t, "a listener:web web/2>ghost"),
	); !errors.Is(err, session.ErrInconsistent) {
		t.Fatalf("Publish of a contradiction: %v, want session.ErrInconsistent", err)
	}
	if diff := cmp.Diff(before, s.versions(resourcev3.ScopedRouteType)); diff != "" {
		t.Errorf("the snapshot changed (-before +after):\n%s", diff)
	}
	client := kit.NewXDSClient(t, s.conn, kit.XDSDelta)
	client.WaitFor(s.isSynced)
}

func TestNewMetricsRegistersOnce(t *testing.T) {
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
