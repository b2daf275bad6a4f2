package demandclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/demandclient"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// serveReport serves a report like a replica of the interceptor, and returns its port.
func serveReport(t *testing.T, report metrics.Report) (server *httptest.Server, port string) {
	t.Helper()
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/demand" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, "%s\n", text)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	_, port, _ = strings.Cut(server.Listener.Addr().String(), ":")
	return server, port
}

// slicesAPI is an API server with one EndpointSlice for each port.
func slicesAPI(t *testing.T, ports ...string) *rest.Config {
	t.Helper()
	items := make([]string, 0, len(ports))
	for i, port := range ports {
		items = append(items, fmt.Sprintf(`{"metadata": {"name": "slice-%d", "namespace": "keda", "resourceVersion": "1"}, "addressType": "IPv4",
			"endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": false}, "targetRef": {"name": "interceptor-%d"}}],
			"ports": [{"name": "proxy", "port": 1}, {"name": "admin", "port": %s}]}`, i, i, port))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Query()
		if r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/keda/endpointslices" ||
			asked.Get("labelSelector") != "kubernetes.io/service-name=keda-add-ons-http-interceptor-admin" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if asked.Get("watch") == "" {
			_, _ = fmt.Fprintf(w, `{"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": [%s]}`,
				strings.Join(items, ","))
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:forbidigo // client-go's, for the leak check
	})
	return &rest.Config{Host: server.URL}
}

// TestDemandOfAllInterceptors has two replicas that each receive the metrics of one of two proxies. When one of them
// is gone, the demand is unknown, not half of what it was.
func TestDemandOfAllInterceptors(t *testing.T) {
	both := []string{"proxy-1", "proxy-2"}
	report := func(name, hears string, rate, concurrency float64) metrics.Report {
		return metrics.Report{
			Replica: name,
			Fleets:  map[model.Fleet]metrics.FleetReport{"shop": {Serving: both, Reporting: []string{hears}}},
			Objects: map[string]metrics.ObjectReport{
				"shop/web": {Fleet: "shop", Metric: metrics.RequestRate, Target: 100, RequestRate: rate, Concurrency: concurrency},
			},
			Queued: map[string]metrics.Queued{"shop/web": {Waiting: 2}},
		}
	}
	_, first := serveReport(t, report("interceptor-0", "proxy-1", 10, 1))
	ending, second := serveReport(t, report("interceptor-1", "proxy-2", 2.5, 3))
	client, err := demandclient.NewClient(demandclient.Options{
		Namespace: "keda", API: slicesAPI(t, first, second), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- client.Run(ctx) }()
	await.Receive(t, "the first reports", client.Seeded())
	web := model.Key{Namespace: "shop", Name: "web"}
	await.True(t, "the demand over both replicas", func() bool {
		value, err := client.Demand(web)
		return err == nil && value.RequestRate == 12.5 && value.Concurrency == 4+4 && value.Queued == 4
	})
	changed := client.Changed(web)
	ending.CloseClientConnections()
	ending.Listener.Close()
	<-changed
	await.True(t, "the demand to be unknown", func() bool {
		value, err := client.Demand(web)
		return err != nil && strings.Contains(err.Error(), "interceptor-1") && value.RequestRate == 10
	})
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// TestSeededAfterEachInterceptor has one replica fail twice before the other one answers. The counts of the other one
// prove that the workload is active.
func TestSeededAfterEachInterceptor(t *testing.T) {
	var asked atomic.Int32
	failed := make(chan struct{})
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 2 {
			close(failed)
		}
		http.Error(w, "not now", http.StatusServiceUnavailable)
	}))
	t.Cleanup(failing.Close)
	text, err := json.Marshal(metrics.Report{
		Fleets: map[model.Fleet]metrics.FleetReport{
			"shop": {Serving: []string{"proxy-1", "proxy-2"}, Reporting: []string{"proxy-2"}},
		},
		Objects: map[string]metrics.ObjectReport{
			"shop/web": {
				Fleet: "shop", Metric: metrics.Concurrency, Target: 1, RequestRate: 10,
				Warming: []string{"proxy-2"},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-failed:
		case <-r.Context().Done():
		}
		_, _ = fmt.Fprintf(w, "%s\n", text)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	_, first, _ := strings.Cut(failing.Listener.Addr().String(), ":")
	_, second, _ := strings.Cut(slow.Listener.Addr().String(), ":")
	client, err := demandclient.NewClient(demandclient.Options{
		Namespace: "keda", API: slicesAPI(t, first, second), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- client.Run(ctx) }()
	await.Receive(t, "the first reports", client.Seeded())
	value, err := client.Demand(model.Key{Namespace: "shop", Name: "web"})
	if value.RequestRate != 10 || value.RateError == nil || err == nil ||
		!strings.Contains(err.Error(), "proxy-1 sends no metrics") {
		t.Errorf("the first demand: %+v, %v", value, err)
	}
	metrics, err := scaler.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	service := scaler.NewService(client, noCanary{}, metrics, slog.New(slog.DiscardHandler))
	for activation, want := range map[string]bool{"9": true, "10": false} {
		active, err := service.IsActive(t.Context(), &externalscaler.ScaledObjectRef{
			Namespace: "shop", Name: "web", ScalerMetadata: map[string]string{"activationTargetValue": activation},
		})
		if active.GetResult() != want || (err == nil) != want {
			t.Errorf("a rate of at least 10, activation value %s: active %v, %v", activation, active.GetResult(), err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// noCanary implements scaler.Canaries without a canary.
type noCanary struct{}

func (noCanary) InProgress(types.NamespacedName) (bool, error) { return false, nil }

func (noCanary) Changes(types.NamespacedName) [2]<-chan struct{} { return [2]<-chan struct{}{} }
