package sink_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/service/metrics/v3"
	prometheusv3 "github.com/prometheus/client_model/go"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// pageObjects is the number of objects of a large installation, in pageFleets fleets.
	pageObjects, pageFleets = 10_000, 100
	// maxPageBytes is the limit of a page of them.
	maxPageBytes = 10_000_000
)

// TestPageOfManyObjects has 10,000 objects in a canary whose backends all have requests. A page of their metrics has the
// counters of each backend, and the histograms of as many backends as allowed.
func TestPageOfManyObjects(t *testing.T) {
	s := newTestSink(t, nil)
	s.setActive(pageObjects, 2)
	text := s.page()
	t.Logf("a page of %d objects in a canary: %.1f MB, limit %.1f MB", pageObjects, float64(len(text))/1e6, maxPageBytes/1e6)
	if len(text) > maxPageBytes {
		t.Errorf("the page has %d bytes, want at most %d", len(text), maxPageBytes)
	}
	backends := 2 * pageObjects
	for name, want := range map[string]int{
		"kedify_backend_requests_total{": backends, "kedify_backend_errors_total{": backends,
		"kedify_backend_response_seconds_count{":                                                 sink.DefaultMaxHistograms,
		fmt.Sprint("kedify_metric_sink_omitted_histograms ", backends-sink.DefaultMaxHistograms): 1,
	} {
		if got := strings.Count(text, "\n"+name); got != want {
			t.Errorf("%d lines of %s, want %d", got, name, want)
		}
	}
}

// TestHistogramsOfCanariesPrecedeOthers has room for the histograms of one canary. It takes the places of objects without
// one, and keeps them when another canary begins.
func TestHistogramsOfCanariesPrecedeOthers(t *testing.T) {
	s := newTestSink(t, func(options *sink.Options) { options.MaxHistograms = 3 })
	s.setActive(4, 1)
	s.expectHistograms("without a canary", "app-00000", "app-00001", "app-00002")
	s.setBackends(3, 2)
	s.expectHistograms("in the canary of the last one", "app-00000", "app-00003", "app-00003")
	s.setBackends(1, 2)
	s.expectHistograms("in another canary", "app-00000", "app-00003", "app-00003")
	s.setBackends(3, 1)
	s.expectHistograms("after the first canary", "app-00000", "app-00001", "app-00001")
}

// TestPageWithoutHistograms has room for none.
func TestPageWithoutHistograms(t *testing.T) {
	s := newTestSink(t, func(options *sink.Options) { options.MaxHistograms = 0 })
	s.setActive(2, 2)
	s.expectHistograms("with the limit 0")
}

// page returns the page of metrics, with those of the process.
func (s *testSink) page() string {
	s.t.Helper()
	response := httptest.NewRecorder()
	server.MetricsHandler(s.registry, new(slog.LevelVar), slog.New(slog.DiscardHandler)).
		ServeHTTP(response, httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if response.Code != http.StatusOK {
		s.t.Fatalf("/metrics: %d %s", response.Code, response.Body)
	}
	return response.Body.String()
}

// expectHistograms checks the objects whose backends have histograms, each once for each backend.
func (s *testSink) expectHistograms(when string, want ...string) {
	s.t.Helper()
	var got []string
	for line := range strings.Lines(s.page()) {
		if rest, isCount := strings.CutPrefix(line, "kedify_backend_response_seconds_count{"); isCount {
			_, rest, _ = strings.Cut(rest, `httpscaledobject="`)
			name, _, _ := strings.Cut(rest, `"`)
			got = append(got, name)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		s.t.Errorf("%s: histograms of %q, want %q", when, got, want)
	}
}

// setActive has a number of objects with requests to each of their backends.
func (s *testSink) setActive(objects, backends int) {
	s.t.Helper()
	s.assignTo(fleet)
	s.SetObjects(map[model.Key]*metrics.Object{shop: nil})
	for i := range objects {
		s.setBackends(i, backends)
	}
	p := s.connect()
	for flush := range int64(2) { // The first one covers an unknown time, and counts nothing.
		_, arrived := s.Report()
		if err := p.Send(flushOf(flush+1, objects, backends)); err != nil {
			s.t.Fatal(err)
		}
		await.Receive(s.t, "the flush", arrived)
	}
}

// setBackends sets the number of backends of an object.
func (s *testSink) setBackends(object, backends int) {
	key := keyAt(object)
	desired := metrics.Object{Fleet: fleet, Spec: inFlightSpec()}
	for i := range backends {
		desired.Services = append(desired.Services, serviceAt(object, i))
	}
	s.SetObjects(map[model.Key]*metrics.Object{key: &desired})
}

// keyAt returns the key of an object.
func keyAt(object int) model.Key {
	return model.Key{Namespace: fmt.Sprintf("team-%03d", object%pageFleets), Name: fmt.Sprintf("app-%05d", object)}
}

// serviceAt returns the name of a backend of an object.
func serviceAt(object, backend int) string {
	return fmt.Sprintf("app-%05d-%s", object, []string{"stable", "canary"}[backend])
}

// flushOf returns the message of a proxy with requests to each backend of objects.
func flushOf(at int64, objects, backends int) *metricsv3.StreamMetricsMessage {
	at *= 1000
	message := &metricsv3.StreamMetricsMessage{EnvoyMetrics: []*prometheusv3.MetricFamily{{
		Name:   new("cluster_manager.cluster_added"),
		Metric: []*prometheusv3.Metric{{Counter: &prometheusv3.Counter{Value: new(0.)}, TimestampMs: &at}},
	}}}
	add := func(name string, metric *prometheusv3.Metric) {
		metric.TimestampMs = &at
		message.EnvoyMetrics = append(message.EnvoyMetrics,
			&prometheusv3.MetricFamily{Name: &name, Metric: []*prometheusv3.Metric{metric}})
	}
	for object := range objects {
		for backend := range backends {
			prefix := "cluster." + keyAt(object).String() + "/" + serviceAt(object, backend) + ".upstream_rq_"
			add(prefix+"total", &prometheusv3.Metric{Counter: &prometheusv3.Counter{Value: new(12345.)}})
			add(prefix+"5xx", &prometheusv3.Metric{Counter: &prometheusv3.Counter{Value: new(123.)}})
			add(prefix+"active", &prometheusv3.Metric{Gauge: &prometheusv3.Gauge{Value: new(3.)}})
			add(prefix+"time", &prometheusv3.Metric{Histogram: &prometheusv3.Histogram{
				SampleCount: new(uint64(12345)), SampleSum: new(123456.),
				Bucket: []*prometheusv3.Bucket{{UpperBound: new(25.), CumulativeCount: new(uint64(12345))}},
			}})
		}
	}
	return message
}
