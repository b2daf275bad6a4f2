package scaler_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

// fakeSource is a Reader and Canaries in memory, which a test sets with put.
type fakeSource struct {
	mu      sync.Mutex
	known   map[types.NamespacedName]state
	changes map[types.NamespacedName]chan struct{}
	calls   int // of Demand
	// connections are the results of Connections.
	connections map[model.Fleet]float64
}

// state is the state of one HTTPScaledObject.
type state struct {
	demand    metrics.Value
	err       error // returned with demand
	canary    bool
	errCanary error
	panics    bool // Demand panics
}

func newFakeSource() *fakeSource {
	return &fakeSource{known: map[types.NamespacedName]state{}, changes: map[types.NamespacedName]chan struct{}{}}
}

// set sets the state of an object.
func (w *fakeSource) set(object types.NamespacedName, s state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[object] = s
	if change, ok := w.changes[object]; ok {
		close(change)
		delete(w.changes, object)
	}
}

func (w *fakeSource) Demand(object model.Key) (metrics.Value, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	known, ok := w.known[types.NamespacedName(object)]
	if !ok {
		return metrics.Value{}, scaler.ErrNoObject
	}
	if known.panics {
		panic("a bug")
	}
	return known.demand, known.err
}

func (w *fakeSource) Connections(fleet model.Fleet) (float64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	connections, ok := w.connections[fleet]
	if !ok {
		return 0, errSilent
	}
	return connections, nil
}

func (w *fakeSource) Changed(object model.Key) <-chan struct{} {
	return w.Changes(types.NamespacedName(object))[0]
}

func (w *fakeSource) Changes(object types.NamespacedName) [2]<-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	change, ok := w.changes[object]
	if !ok {
		change = make(chan struct{})
		w.changes[object] = change
	}
	return [2]<-chan struct{}{change}
}

func (w *fakeSource) InProgress(object types.NamespacedName) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[object].canary, w.known[object].errCanary
}

// errSilent is the error for an interceptor without a recent report.
var errSilent = errors.New("interceptor-2 has not reported for 5s")

// web is the HTTPScaledObject of most tests, and reference refers to the ScaledObject of the same name.
var web = types.NamespacedName{Namespace: "shop", Name: "web"}

func reference(metadata map[string]string) *externalscaler.ScaledObjectRef {
	return &externalscaler.ScaledObjectRef{Namespace: "shop", Name: "web", ScalerMetadata: metadata}
}

// serve starts a server with a Service over w, and returns a client of it, the Service
// and its metrics.
func serve(
	t *testing.T, w *fakeSource, maxStreams uint32,
) (externalscaler.ExternalScalerClient, *scaler.Service, *prometheus.Registry) {
	t.Helper()
	connection, service, registry := connect(t, w, maxStreams)
	return externalscaler.NewExternalScalerClient(connection), service, registry
}

// connect is serve, but returns the connection instead of the client.
func connect(t *testing.T, w *fakeSource, maxStreams uint32) (*grpc.ClientConn, *scaler.Service, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	observer, err := scaler.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	service := scaler.NewService(w, w, observer, slog.New(slog.DiscardHandler))
	server := scaler.NewServer(maxStreams, observer, slog.New(slog.DiscardHandler))
	service.Register(server)
	listener := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		service.Close()
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	connection, err := grpc.NewClient("passthrough:scaler",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection, service, registry
}
