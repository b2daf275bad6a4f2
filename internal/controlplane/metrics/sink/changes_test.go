package sink_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
)

// TestChangesQuery checks that the first line is always a whole report, and that further lines contain only changes for
// clients with ChangesQuery.
func TestChangesQuery(t *testing.T) {
	s := newTestSink(t, nil)
	s.assignTo(fleet)
	proxy := s.connect()
	proxy.flush("1000", "3")
	mux := http.NewServeMux()
	s.Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	listen := func(query string) (next func() metrics.Report) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+sink.DemandPath+query, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		decoder := json.NewDecoder(response.Body)
		return func() (report metrics.Report) {
			t.Helper()
			if err := decoder.Decode(&report); err != nil {
				t.Fatal(err)
			}
			return report
		}
	}
	whole, changes := listen(""), listen("?"+sink.ChangesQuery)
	for _, next := range []func() metrics.Report{whole, changes} {
		if first := next(); first.ChangesOnly || len(first.Objects) != 1 || len(first.Fleets) != 1 {
			t.Errorf("the first report is %+v", first)
		}
	}
	s.clock.pass(sink.ReportInterval)
	if second := changes(); !second.ChangesOnly || len(second.Objects) != 0 || second.Fleets != nil {
		t.Errorf("nothing has changed, and the report is %+v", second)
	}
	if second := whole(); second.ChangesOnly || len(second.Objects) != 1 {
		t.Errorf("without the query the report is %+v", second)
	}
	proxy.flush("2000", "4")
	s.clock.pass(sink.ReportInterval)
	if third := changes(); !third.ChangesOnly || third.Objects[shop.String()].Concurrency != 4 {
		t.Errorf("the object has changed, and the report is %+v", third)
	}
	late := listen("?" + sink.ChangesQuery)
	if first := late(); first.ChangesOnly || first.Objects[shop.String()].Concurrency != 4 {
		t.Errorf("to a second client the first report is %+v", first)
	}
}
