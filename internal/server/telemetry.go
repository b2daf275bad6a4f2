package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Log formats.
const (
	// FormatJSON writes one JSON object per line.
	FormatJSON = "json"
	// FormatText writes one line of key=value pairs per record.
	FormatText = "text"
)

// ErrFormat says that a log format is none of FormatJSON and FormatText.
var ErrFormat = errors.New("unknown log format")

// NewLogger returns a logger that writes to out. level is one of debug, info, warn and error in any letter case,
// optionally with an offset, as slog.Level.UnmarshalText reads it.
func NewLogger(out io.Writer, format, level string) (*slog.Logger, error) {
	var threshold slog.Level
	if err := threshold.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: use debug, info, warn or error: %w", level, err)
	}
	options := &slog.HandlerOptions{Level: threshold}
	switch format {
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(out, options)), nil
	case FormatText:
		return slog.New(slog.NewTextHandler(out, options)), nil
	default:
		return nil, fmt.Errorf("%w %q: use %s or %s", ErrFormat, format, FormatJSON, FormatText)
	}
}

// NewRegistry returns a registry that already has the metrics of the Go runtime, of the process, and kedify_build_info
// with the labels component and version.
func NewRegistry(component, version string) (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	var failed error
	for _, collector := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		BuildInfo(component, version),
	} {
		failed = errors.Join(failed, registry.Register(collector))
	}
	return registry, failed
}

// Version is the version that a release was stamped with, or what the build information knows.
func Version(stamped string) string {
	if stamped != "" {
		return stamped
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "unknown"
}

// BuildInfo is the metric kedify_build_info, for a registry that NewRegistry has not made.
func BuildInfo(component, version string) prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "kedify", Name: "build_info", Help: "Always 1; the labels tell what runs.",
		ConstLabels: prometheus.Labels{"component": component, "version": version},
	})
	build.Set(1)
	return build
}

// MetricsHandler serves /metrics in the formats of Prometheus and OpenMetrics, and 404 elsewhere.
func MetricsHandler(registry prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	return mux
}

// AddProfiling lets mux serve net/http/pprof under /debug/pprof/. A profile slows the process down and shows its inner
// life: for a port that is not public.
func AddProfiling(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
