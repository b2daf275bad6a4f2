package demandclient_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// inCanary is a report about one of two proxies, with errors of a canary.
func inCanary(t *testing.T, proxy string) string {
	t.Helper()
	bad := metrics.Totals{Requests: 40, Errors: 10, Times: metrics.Times{Count: 40, Sum: 4000}}
	for _, bound := range metrics.TimeBounds() {
		if bound >= 250 {
			bad.Times.Set(bound, 40)
		} else if bound >= 50 {
			bad.Times.Set(bound, 20)
		}
	}
	text, err := json.Marshal(metrics.Report{
		Fleets: map[model.Fleet]metrics.FleetReport{"apps": {Serving: []string{"1", "2"}, Reporting: []string{proxy}}},
		Objects: map[string]metrics.ObjectReport{shop.String(): {
			Fleet: "apps", Metric: metrics.RequestRate, Target: 5, RequestRate: 7,
			Backends: map[string]metrics.Totals{"canary": bad, "idle": {}, "stable": {Requests: 100}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestBackends requests the totals of both sides of a canary, before and after the second interceptor has reported its
// proxy.
func TestBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := startInterceptor(t), startInterceptor(t)
		reader := start(t, a, b)
		mux := http.NewServeMux()
		reader.Register(mux)
		ask := func(path string, code int, wantErr string) {
			t.Helper()
			recorder := httptest.NewRecorder()
			mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
			if got := strings.TrimSpace(recorder.Body.String()); recorder.Code != code || !strings.Contains(got, wantErr) {
				t.Errorf("GET %s: %d %s; want %d %s", path, recorder.Code, got, code, wantErr)
			}
		}
		a.reports <- inCanary(t, "1")
		awaitDemand(t, reader, 0, "proxy apps/2 sends no metrics")
		ask(
			"/backends/apps/shop/canary", http.StatusServiceUnavailable,
			"proxy apps/2 sends no metrics; no report from interceptor b",
		)
		b.reports <- inCanary(t, "2")
		awaitDemand(t, reader, 14, "")
		for path, want := range map[string]string{
			"canary": `{"requests":80,"errors":20,"errorRate":0.25,"responseSeconds":{"mean":0.1,"p50":0.05,"p90":0.22,"p95":0.235,"p99":0.247}}`,
			"stable": `{"requests":200,"errors":0,"errorRate":0,"responseSeconds":{"mean":0,"p50":0,"p90":0,"p95":0,"p99":0}}`,
			"idle":   `{"requests":0,"errors":0,"errorRate":0,"responseSeconds":{"mean":0,"p50":0,"p90":0,"p95":0,"p99":0}}`,
		} {
			ask("/backends/apps/shop/"+path, http.StatusOK, want)
		}
		ask("/backends/apps/shop/typo", http.StatusNotFound, "apps/shop: no traffic split with Service typo")
		ask("/backends/apps/other/canary", http.StatusServiceUnavailable, "no interceptor has reported it")
	})
}
