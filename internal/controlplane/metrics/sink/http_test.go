package sink_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

func TestPages(t *testing.T) {
	s := newTestSink(t, nil)
	s.assignTo(fleet)
	s.connect().flush("1000", "3")
	s.SetObjects(map[model.Key]*metrics.Object{
		{Namespace: "apps", Name: "other"}: externalObject("outbound|80"), {Namespace: "b", Name: "b"}: externalObject("outbound|80"),
	})
	mux := http.NewServeMux()
	s.Register(mux)
	for path, want := range map[string]string{
		"/queue":             `{"apps/other":{"Concurrency":0,"RPS":0},"apps/shop":{"Concurrency":3,"RPS":0},"b/b":{"Concurrency":0,"RPS":0}}`,
		"/envoy-metrics-map": `{"outbound|80":"apps/other,b/b"}`,
	} {
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if got := strings.TrimSpace(recorder.Body.String()); recorder.Code != http.StatusOK || got != want {
			t.Errorf("GET %s: %d %s, want %s", path, recorder.Code, got, want)
		}
	}
	next := s.listen()
	for i := range 2 {
		if i > 0 {
			s.clock.pass(sink.ReportInterval) // Not after the last report: another one would be due when the sink stops.
		}
		if got, err := next(); err != nil || got != 3 {
			t.Errorf("%v requests in flight, %v; want 3", got, err)
		}
	}
	s.stop()
	var err error
	for err == nil {
		_, err = next()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v, want an orderly end", err)
	}
}

// listen reads DemandPath. What it returns waits for the next report, and returns the object's requests in flight.
func (s *testSink) listen() (next func() (float64, error)) {
	s.t.Helper()
	mux := http.NewServeMux()
	s.Register(mux)
	server := httptest.NewServer(mux)
	s.t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, server.URL+sink.DemandPath, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = response.Body.Close() })
	decoder := json.NewDecoder(response.Body)
	return func() (float64, error) {
		var report metrics.Report
		if err := decoder.Decode(&report); err != nil {
			return 0, err
		}
		value, err := metrics.Merge(shop, []metrics.Report{report}, nil)
		return value.Amount(), err
	}
}

// TestOneReportForAllClients connects a second client while the report of the first is recent: it gets the same report,
// and a second later both get the next one.
func TestOneReportForAllClients(t *testing.T) {
	s := newTestSink(t, nil)
	s.assignTo(fleet)
	proxy := s.connect()
	proxy.flush("1000", "3")
	want := func(amount float64, clients ...func() (float64, error)) {
		t.Helper()
		for i, next := range clients {
			if got, err := next(); err != nil || got != amount {
				t.Errorf("client %d gets %v, %v; want %v", i, got, err, amount)
			}
		}
	}
	first := s.listen()
	want(3, first)
	proxy.flush("2000", "4")
	second := s.listen()
	want(3, second)
	s.clock.pass(sink.ReportInterval)
	want(4, first, second)
}
