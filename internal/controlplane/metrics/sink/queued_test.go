package sink_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestQueuedRequestsAreUrgent checks that queued requests are reported at once, before the next report is due.
func TestQueuedRequestsAreUrgent(t *testing.T) {
	var mu sync.Mutex
	queued, urgent := map[model.Key]holding.Count{}, make(chan struct{})
	s := newTestSink(t, func(options *sink.Options) {
		options.Queued = func() (map[model.Key]holding.Count, <-chan struct{}) {
			mu.Lock()
			defer mu.Unlock()
			return queued, urgent
		}
	})
	mux := http.NewServeMux()
	s.Register(mux)
	server := httptest.NewServer(mux)
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+sink.DemandPath, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	decoder := json.NewDecoder(response.Body)
	next := func() (report metrics.Report) {
		t.Helper()
		if err := decoder.Decode(&report); err != nil {
			t.Fatal(err)
		}
		return report
	}
	first := next()
	if first.QueuedOnly || len(first.Objects) != 1 {
		t.Errorf("the first report is %+v", first)
	}
	mu.Lock()
	before := urgent
	queued, urgent = map[model.Key]holding.Count{shop: {Waiting: 2, ViaFallback: 1}}, make(chan struct{})
	mu.Unlock()
	close(before)
	want := metrics.Report{
		Replica: "a", Queued: map[string]metrics.Queued{"apps/shop": {Waiting: 2, Counted: 1}}, QueuedOnly: true,
	}
	if diff := cmp.Diff(want, next()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	s.clock.pass(sink.ReportInterval)
	whole := next()
	if diff := cmp.Diff(want.Queued, whole.Queued); diff != "" || whole.QueuedOnly || len(whole.Objects) != 1 {
		t.Errorf("the next report is %+v:\n%s", whole, diff)
	}
	s.stop()
}
