package envoy_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/port"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// TestLongRequestsAreInFlight sends requests that last for many flushes: long ones, WebSockets, and the streams of one
// gRPC connection. Each is in flight from its begin to its end, and is counted for its own object.
func TestLongRequestsAreInFlight(t *testing.T) {
	t.Parallel()
	const long, sockets, streams, flushes = 2, 3, 4, 5
	plain, calls := model.Key{Namespace: namespace, Name: "plain"}, model.Key{Namespace: namespace, Name: "calls"}
	spec := rateOver(metrics.DefaultWindow)
	spec.Metric = metrics.Concurrency
	sink := startSink(t, port.Open(t), map[model.Key]*metrics.Object{
		plain: {Fleet: namespace, Spec: spec, Services: []string{"plain"}},
		calls: {Fleet: namespace, Spec: spec, Services: []string{"calls"}},
	})
	app, server := startBackend(t, "plain"), startBackend(t, "calls")
	objects := newInputs(t, []*backend{app, server},
		kit.NewScaledObject(namespace, "plain", "plain", 1, "plain.example.com"),
		kit.NewScaledObject(namespace, "calls", "calls", 1, "calls.example.com"))
	objects.Services[1].Ports[0].Protocol = model.HTTP2
	resources := translated(t, objects, translate.DefaultOptions())
	s := serve(t, "DELTA_GRPC", resources, [2]string{"stats_flush_interval: 1s", "stats_flush_interval: 0.2s"},
		sinkAddressChange(t, sink.address))
	s.await(t, resources)
	want := func(what string, ofPlain, ofCalls float64) {
		t.Helper()
		isEqual := func() bool {
			one, err := sink.value(plain)
			other, errOther := sink.value(calls)
			return err == nil && errOther == nil && one.Concurrency == ofPlain && other.Concurrency == ofCalls
		}
		await.True(t, what, isEqual)
		for range flushes {
			if awaitFlush(t, sink); !isEqual() {
				t.Errorf("%s: no longer", what)
			}
		}
	}
	want("nothing yet", 0, 0)

	var sending sync.WaitGroup
	for range long {
		sending.Go(func() { _, _ = traffic.Get(t.Context(), "http://"+s.address+"/held", "plain.example.com", nil) })
	}
	var open []net.Conn
	for range sockets {
		connection, _ := openWebSocket(t, s.address)
		defer connection.Close()
		open = append(open, connection)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch(ctx, t, s.address, streams)
	want("all of them", long+sockets, streams)
	for _, connection := range open {
		_ = connection.Close()
	}
	want("without the WebSockets", long, streams)
	cancel()
	want("without the gRPC streams", long, 0)
	close(app.release)
	sending.Wait()
	want("nothing any more", 0, 0)
}

// watch opens streams on one gRPC connection that last until ctx ends.
func watch(ctx context.Context, t *testing.T, address string, streams int) {
	t.Helper()
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("calls.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	for range streams {
		stream, err := grpc_health_v1.NewHealthClient(connection).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
}
