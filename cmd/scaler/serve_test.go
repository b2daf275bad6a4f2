package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) {
	if os.Getenv(attackedVariable) != "" {
		os.Exit(attacked())
	}
	leak.Main(m)
}

// busy is a demandSource with one queued request for every object.
type busy struct{ seeded chan struct{} }

func (busy) Demand(model.Key) (metrics.Value, error) {
	return metrics.Value{Queued: 1, Concurrency: 1}, nil
}

func (busy) Connections(model.Fleet) (float64, error) { return 1, nil }

func (busy) Changed(model.Key) <-chan struct{} { return nil }

func (busy) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (busy) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /backends/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
}

func (b busy) Seeded() <-chan struct{} { return b.seeded }

// local returns settings with free ports of this host.
func local() settings {
	const free = "127.0.0.1:0"
	return settings{
		grpcAddress: free, healthAddress: free, metricsAddress: free, maxStreams: 10,
		shutdownDelay: 50 * time.Millisecond, shutdownDeadline: 10 * time.Second, logFormat: "json", logLevel: "info",
	}
}

// noAPI is the configuration of an API server that is not running.
func noAPI() *rest.Config { return &rest.Config{Host: "http://127.0.0.1:1"} }

// opened reads logs to their end, and returns the address of each port once it is open.
func opened(t *testing.T, logs io.Reader) func(port string) string {
	t.Helper()
	type port struct{ Msg, Port, Address string }
	ports := make(chan port, 16)
	go func() {
		defer close(ports)
		for lines := bufio.NewScanner(logs); lines.Scan(); {
			var line port
			if err := json.Unmarshal(lines.Bytes(), &line); err == nil && line.Msg == "listening" {
				ports <- line
			}
		}
	}()
	return func(name string) string {
		t.Helper()
		for line := range ports {
			if line.Port == name {
				return line.Address
			}
		}
		t.Fatalf("the logs ended before %s was open", name)
		return ""
	}
}

// get fetches a page and returns its status code and text.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: await.Patience(), Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestServe runs a scaler from start to end: not ready before the first reports, ready afterwards, and a shutdown that
// ends KEDA's stream cleanly.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	demand := busy{make(chan struct{})}
	reader, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		logger := slog.New(slog.NewJSONHandler(out, nil))
		done <- serveFrom(ctx, local(), noAPI(), demand, logger, new(slog.LevelVar))
		_ = out.Close()
	}()
	address := opened(t, reader)
	healthAt, metricsAt := address("health"), address("metrics")
	if code, text := get(t, "http://"+healthAt+"/readyz"); code != 503 || !strings.Contains(text, "first reports") {
		t.Errorf("before the first reports /readyz = %d, %q", code, text)
	}
	close(demand.seeded)
	connection, err := grpc.NewClient(address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	probes := grpc_health_v1.NewHealthClient(connection)
	for _, service := range []string{"", "liveness", "readiness"} {
		answer, err := probes.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health service %q: %v, %v", service, answer.GetStatus(), err)
		}
	}
	if code, text := get(t, "http://"+healthAt+"/readyz"); code != 200 {
		t.Errorf("/readyz = %d, %q", code, text)
	}
	stream, err := externalscaler.NewExternalScalerClient(connection).StreamIsActive(
		t.Context(), &externalscaler.ScaledObjectRef{Namespace: "shop", Name: "web"},
	)
	if err != nil {
		t.Fatal(err)
	}
	if pushed, err := stream.Recv(); !pushed.GetResult() || err != nil {
		t.Errorf("pushed %v, %v", pushed.GetResult(), err)
	}
	if _, text := get(t, "http://"+metricsAt+"/metrics"); !strings.Contains(text, "kedify_scaler_streams 1") {
		t.Error("the open stream is not in /metrics")
	}
	stop()
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want EOF", err)
	}
	if err := <-done; err != nil {
		t.Errorf("serve = %v", err)
	}
}

// TestServices checks the registered services. Reflection is off, because it would list the API to any caller.
func TestServices(t *testing.T) {
	p, err := newProcess(local(), noAPI(), busy{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, method := range p.server.Methods() {
		got = append(got, path.Dir(method)[1:])
	}
	got = slices.Compact(got)
	if diff := cmp.Diff([]string{"externalscaler.ExternalScaler", "grpc.health.v1.Health"}, got); diff != "" {
		t.Errorf("services (-want +got)\n%s", diff)
	}
}

func TestServeFails(t *testing.T) {
	used, err := server.Listen(t.Context(), "test", "127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = used.Close() }()
	for name, test := range map[string]struct {
		change func(*settings)
		want   string
	}{
		"a port that is in use": {func(s *settings) { s.metricsAddress = used.Addr().String() }, "--metrics-address"},
		"a missing certificate": {
			func(s *settings) { s.tls = scaler.TLS{Certificate: "absent.crt", Key: "absent.key"} }, "absent.crt",
		},
	} {
		chosen := local()
		test.change(&chosen)
		err := serveFrom(t.Context(), chosen, noAPI(), busy{}, slog.New(slog.DiscardHandler), new(slog.LevelVar))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: serve = %v, want something with %q", name, err, test.want)
		}
	}
}
