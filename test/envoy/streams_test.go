package envoy_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
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

// TestOpenStreamKeepsTheWorkloadActive opens a WebSocket to an application that scales by request rate. After the window
// the rate is 0, and the scaler reports the workload as active until the WebSocket ends.
func TestOpenStreamKeepsTheWorkloadActive(t *testing.T) {
	t.Parallel()
	plain := model.Key{Namespace: namespace, Name: "plain"}
	sink := startSink(t, port.Open(t), map[model.Key]*metrics.Object{
		plain: {Fleet: namespace, Spec: rateOver(time.Second), Services: []string{"plain"}},
	})
	objects := newInputs(t, []*backend{startBackend(t, "plain")},
		kit.NewScaledObject(namespace, "plain", "plain", 1, "plain.example.com"))
	resources := translated(t, objects, translate.DefaultOptions())
	s := serve(t, "DELTA_GRPC", resources, [2]string{"stats_flush_interval: 1s", "stats_flush_interval: 0.2s"},
		sinkAddressChange(t, sink.address))
	s.await(t, resources)
	observer, err := scaler.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	service := scaler.NewService(sinkReader{sink}, noCanaries{}, observer, slog.New(slog.DiscardHandler))
	awaitActive := func(when string, want bool, concurrency float64) {
		t.Helper()
		await.True(t, when, func() bool {
			demand, err := sink.value(plain)
			return err == nil && demand.RequestRate == 0 && demand.Concurrency == concurrency
		})
		active, err := service.IsActive(t.Context(), &externalscaler.ScaledObjectRef{
			Namespace: namespace, Name: "plain", ScalerMetadata: map[string]string{"scalingMetric": "requestRate"},
		})
		if err != nil || active.GetResult() != want {
			t.Errorf("%s: active %v, %v; want %v", when, active.GetResult(), err, want)
		}
	}
	awaitActive("no request yet", false, 0)
	connection, _ := openWebSocket(t, s.address)
	awaitActive("only the WebSocket is left", true, 1)
	proxies, err := service.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{
		ScaledObjectRef: &externalscaler.ScaledObjectRef{
			Namespace: namespace, Name: "kedify-proxy", ScalerMetadata: map[string]string{"proxyConnections": "1000"},
		},
		MetricName: "http-proxy-connections",
	})
	if err != nil || proxies.GetMetricValues()[0].GetMetricValueFloat() < 1 {
		t.Errorf("with a WebSocket the proxies have %v connections, %v; want at least 1", proxies, err)
	}
	_ = connection.Close()
	awaitActive("the WebSocket has ended", false, 0)
}

// sinkReader is the scaler's Reader of a metric sink.
type sinkReader struct{ sink *runningSink }

// Demand implements scaler.Reader.
func (r sinkReader) Demand(object model.Key) (metrics.Value, error) { return r.sink.value(object) }

// Connections implements scaler.Reader.
func (r sinkReader) Connections(fleet model.Fleet) (float64, error) { return r.sink.connections(fleet) }

// Changed implements scaler.Reader.
func (sinkReader) Changed(model.Key) <-chan struct{} { return nil }

// noCanaries is a scaler.Canaries without a canary.
type noCanaries struct{}

// InProgress implements scaler.Canaries.
func (noCanaries) InProgress(types.NamespacedName) (bool, error) { return false, nil }

// Changes implements scaler.Canaries.
func (noCanaries) Changes(types.NamespacedName) [2]<-chan struct{} { return [2]<-chan struct{}{} }

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
