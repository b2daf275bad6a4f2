package server_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

func TestNewLogger(t *testing.T) {
	tests := []struct {
		name, format, level string
		want, wantError     string // parts of the output and of the error
	}{
		{name: "JSON", format: "json", level: "info", want: `"msg":"shown","port":5678`},
		{name: "text", format: "text", level: "INFO", want: `msg=shown port=5678`},
		{name: "a level that hides the record", format: "text", level: "warn"},
		{
			name: "an unknown format is refused by name", format: "xml", level: "info",
			wantError: `unknown log format "xml": use json or text`,
		},
		{
			name: "an unknown level is refused by name", format: "json", level: "loud",
			wantError: `log level "loud": use debug`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			logger, _, err := server.NewLogger(&out, test.format, test.level)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Fatalf("NewLogger = %v, want something with %q", err, test.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			logger.Info("shown", "port", 5678)
			if test.want == "" && out.Len() > 0 || !strings.Contains(out.String(), test.want) {
				t.Errorf("logged %q, want something with %q", out.String(), test.want)
			}
		})
	}
	if _, _, err := server.NewLogger(nil, "xml", "info"); !errors.Is(err, server.ErrFormat) {
		t.Errorf("the error of an unknown format is %v, want ErrFormat", err)
	}
}

func TestMetricsHandler(t *testing.T) {
	registry, err := server.NewRegistry("interceptor", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	server.MetricsHandler(registry, new(slog.LevelVar), slog.New(slog.DiscardHandler)).ServeHTTP(recorder,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	for _, want := range []string{
		`kedify_build_info{component="interceptor",version="v1.2.3"} 1`, "go_goroutines ",
		"process_resident_memory_bytes ",
	} {
		if !strings.Contains(recorder.Body.String(), want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
}

// TestScrapesAreLimited has gatherers that do not return: further requests for /metrics get 503 meanwhile.
func TestScrapesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalled, ended := make(chan struct{}), make(chan int)
		handler := server.MetricsHandler(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			<-stalled
			return nil, nil
		}), new(slog.LevelVar), slog.New(slog.DiscardHandler))
		const requests, served = 20, 3
		for range requests {
			go func() {
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
				ended <- recorder.Code
			}()
		}
		for range requests - served {
			if code := <-ended; code != http.StatusServiceUnavailable {
				t.Errorf("a request that exceeds the limit gets %d, want 503", code)
			}
		}
		close(stalled)
		for range served {
			if code := <-ended; code != http.StatusOK {
				t.Errorf("a request within the limit gets %d, want 200", code)
			}
		}
	})
}

func TestAddProfiling(t *testing.T) {
	mux := http.NewServeMux()
	server.AddProfiling(mux)
	recorder := httptest.NewRecorder()
	mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
		"/debug/pprof/goroutine?debug=1", http.NoBody))
	if recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), "goroutine profile") {
		t.Errorf("goroutine profile = %d, %.60q", recorder.Code, recorder.Body.String())
	}
}
